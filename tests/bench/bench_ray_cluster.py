"""How long a private Ray cluster of N nodes on this machine takes from the first process to a command that begins.

python tests/bench/bench_ray_cluster.py [--nodes 8] [--rounds 3]

Everything counts: the start of the node programs, preflight and fingerprint, the meeting, Ray, readiness.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.launch.node.cluster import LocalJob, order


def measure(nodes: int, folder: Path) -> tuple[float, float, float, float]:
    """Seconds until all had met, Ray was up, the command began, and everything was gone again."""
    job = LocalJob(folder)
    program = [sys.executable, "-c", "import time; print('begun', time.time(), flush=True)"]
    began, clock = time.monotonic(), time.time()
    job.start_all(order(nodes, program, seed=f"bench {os.getpid()} {time.time()}"))
    try:
        statuses = job.statuses()
    finally:
        job.end()
    if any(statuses):
        sys.exit(f"statuses {statuses}\n{job.logs()}")
    said = job.log(0)
    first = float(re.findall(r"(?m)^begun ([\d.]+)", said)[0]) - clock
    up, took = re.findall(r"([\d.]+)s  node 0: Ray is up on .* after ([\d.]+) s", said)[0]
    return float(up) - float(took), float(up), first, time.monotonic() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    print(f"{args.nodes} nodes, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    found = []
    for number in range(args.rounds):
        folder = Path(tempfile.mkdtemp(prefix="ob"))
        try:
            found.append(measure(args.nodes, folder))
        finally:
            shutil.rmtree(folder)
        met, up, first, gone = found[-1]
        print(f"round {number + 1}: met {met:.1f} s, Ray up {up:.1f} s, command {first:.1f} s, all gone {gone:.1f} s")
    print(f"median until the command begins: {statistics.median(row[2] for row in found):.1f} s")


if __name__ == "__main__":
    main()
