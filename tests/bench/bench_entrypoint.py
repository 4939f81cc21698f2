"""What the entry point of an image costs: ``python tests/bench/bench_entrypoint.py PREFIX [RUNS]``.

Starts ``PREFIX/bin/orbit-entrypoint true`` RUNS times (default 200) and ``env true`` as often, and prints both in
milliseconds: by the clock, and in processor time, which says the same on a busy machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence


def measure(words: Sequence[str], runs: int, env: dict[str, str]) -> dict[str, float]:
    """Milliseconds of one start, on average."""
    began, before = time.monotonic(), os.times()
    for _ in range(runs):
        subprocess.run(words, env=env, check=True, stderr=subprocess.DEVNULL)
    after = os.times()
    used = (after.children_user - before.children_user) + (after.children_system - before.children_system)
    return {"clock_ms": round((time.monotonic() - began) / runs * 1e3, 2), "cpu_ms": round(used / runs * 1e3, 2)}


def main() -> None:
    """Measure and print."""
    prefix, runs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200
    with tempfile.TemporaryDirectory(prefix="o", dir="/tmp") as state:
        env = {"PATH": os.environ["PATH"], "HOME": state, "ORBIT_STATE": f"{state}/s"}
        entry = [f"{prefix}/bin/orbit-entrypoint", "true"]
        measure(entry, 1, env)
        answer = {"entrypoint": measure(entry, runs, env), "env": measure(["env", "true"], runs, env), "runs": runs}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
