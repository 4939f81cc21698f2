"""How long the lint takes: ``python tests/bench/bench_lint.py [COUNT]`` writes manifests and times the whole command.

Each of the files differs (names, numbers, images): Ray jobs of some hundred lines, jobs, compose files, batch scripts,
submit files and docker lines, some with a tag. Printed are seconds of the whole command, start-up included.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.launch.lint.sound import COMPOSE, CONDOR, DIGEST, DOCKER, JOB, RAY_JOB, SLURM  # noqa: E402

SMALL = (("job.yaml", JOB), ("compose.yaml", COMPOSE), ("t.sbatch", SLURM), ("run.sh", DOCKER), ("t.sub", CONDOR))


def write(folder: Path, count: int) -> int:
    """``count`` manifests, no two alike; their lines. Half of them are long."""
    lines = 0
    for number in range(count):
        name, text = ("rayjob.yaml", many(number)) if number % 2 else SMALL[number // 2 % len(SMALL)]
        image = "sha256:" + hashlib.sha256(str(number).encode()).hexdigest()
        text = text.replace(DIGEST, image).replace("train.py", f"train_{number}.py")
        if number % 10 == 0:
            text = text.replace(f"@{image}", f":{number}").replace(f":{image}", f":{number}")
        lines += text.count("\n")
        (folder / f"{number:05}-{name}").write_text(text)
    return lines


def many(number: int) -> str:
    """A Ray job of several groups, with as many variables as people set."""
    group = RAY_JOB[RAY_JOB.index("    - groupName") :]
    groups = "".join(group.replace("workers", f"group-{place}") for place in range(1 + number % 4))
    env = "            env:\n" + "".join(
        f'            - name: SETTING_{place}\n              value: "{number + place}"\n' for place in range(20)
    )
    return (RAY_JOB + groups).replace("            resources:\n", env + "            resources:\n")


def main() -> None:
    """Write, run three times, print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as name:
        lines = write(Path(name), count)
        command = [sys.executable, "-m", "orbit", "audit", name, "--json"]
        seconds = []
        for _run in range(3):
            began = time.perf_counter()
            done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True)
            seconds.append(time.perf_counter() - began)
            report = json.loads(done.stdout)["reports"][0]
        assert report["facts"]["files"] == count
        print(f"{count} manifests, {lines} lines, {len(report['findings'])} findings, exit {done.returncode}")
        print("seconds:", ", ".join(f"{value:.2f}" for value in sorted(seconds)), f"(load {os.getloadavg()[0]:.1f})")


main()
