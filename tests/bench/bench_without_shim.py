#!/usr/bin/env python3
"""What a package costs when its own setup.py builds it, as a user would: no shim, no job server, no cache.

    .venv/bin/python tests/bench/bench_without_shim.py causal-conv1d [--jobs 2] [--limit MINUTES] [--json]

Source and build environment are those of the recipe, from the store (``ORBIT_CACHE``); the recipe's variables are set,
architectures of the cu130 profile included, and it is seen what the script makes of them. It may compile several
architectures of a unit at once (causal-conv1d: four, some 13 GiB), so leave it the machine. Against it stand the CPU
seconds of ``orbit kernels costs`` after a build with an empty store. Exit status: 0 built, 1 failed or out of time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from orbit.core.console import Silent
from orbit.core.paths import checkout_root
from orbit.core.store import open_store
from orbit.kernels.buildenv import SITE, build_environment
from orbit.kernels.recipe import gencode_pairs, load_recipe, render_env
from orbit.kernels.sources import obtain, resolve_source, unpack
from orbit.profile.lock import read_lock
from orbit.profile.model import load_profile


def variables(env: Path, home: str, jobs: int, recipe_env: dict[str, str]) -> dict[str, str]:
    """The environment of the build: the wheels' toolkit, a path, the recipe's variables and nothing of the caller."""
    toolkit = env / SITE / "nvidia" / "cu13"
    return {
        "PATH": f"{env / 'bin'}:/usr/bin:/bin",
        "HOME": home,
        "LC_ALL": "C.UTF-8",
        "CUDA_HOME": str(toolkit),
        "LIBRARY_PATH": str(toolkit / "lib"),
        "MAX_JOBS": str(jobs),
        **recipe_env,
    }


def measure(name: str, jobs: int, limit_s: float) -> dict[str, Any]:
    """Build it once in a temporary folder; wall, CPU seconds of all processes, peak of one, architectures asked for."""
    recipe, root = load_recipe(name), checkout_root()
    lock, store, progress = read_lock(root / "uv.lock"), open_store(), Silent()
    env = build_environment(recipe.group, lock, store, progress).path / "env"
    archs = tuple(real for _, real in gencode_pairs(load_profile("cu130")))
    with tempfile.TemporaryDirectory() as folder:
        got = obtain(recipe, resolve_source(recipe, lock, root), store, root, progress)
        project = unpack(got, Path(folder) / "src")
        log = Path(folder) / "log"
        began = time.monotonic()
        with log.open("wb") as file:
            process = subprocess.Popen(
                [env / "bin" / "python", "setup.py", "bdist_wheel"],
                cwd=project,
                env=variables(env, folder, jobs, render_env(recipe, archs)),
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                status: int | None = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                status = None
                os.killpg(process.pid, 15)
                process.wait()
        text = log.read_text(encoding="utf-8", errors="replace")
        wheels = [path.stat().st_size for path in project.glob("dist/*.whl")]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "package": name,
        "status": status,
        "wall_s": round(time.monotonic() - began, 1),
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "largest_process_gib": round(used.ru_maxrss / 2**20, 2),
        "architectures": sorted(set(re.findall(r"code=\[?(\w+)", text))),
        "wheel_bytes": wheels[0] if wheels else None,
        "end_of_log": [] if status == 0 else text.splitlines()[-20:],
    }


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--limit", type=float, default=60.0, metavar="MINUTES")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    result = measure(args.recipe, args.jobs, 60 * args.limit)
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        for key, value in result.items():
            print(f"{key:20} {value}")
    return 0 if result["status"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
