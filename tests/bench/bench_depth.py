"""How fast and how large ``--deep`` is on a real environment.

    ORBIT_TEST_ENV=PREFIX python tests/bench/bench_depth.py [--rounds N] [--workers N]

Prints one JSON object: medians of wall and CPU seconds (ours and the workers'), the highest memory of all processes
together (sampled, shared pages counted more than once; of the first round, as an audit has only one), bytes read and
unpacked, and the time of the rules. The facts of the environment are read before and are not in the times; their
memory is (``facts_mb``).
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import time
from pathlib import Path

from orbit.audit.deep.baseline import make_baseline
from orbit.audit.deep.depth import read_depth
from orbit.audit.installed.environment import read_environment
from orbit.audit.known.policy import load_policy
from orbit.audit.rules.depth import DEPTH
from orbit.core.console import Silent
from orbit.core.meter import Meter, resident_bytes
from orbit.profile.model import load_profile
from tests.bench.bench_audit import cpu_seconds


def main() -> int:
    """Measure, print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", nargs="?", default=os.environ.get("ORBIT_TEST_ENV"))
    parser.add_argument("--profile", default="cu130")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int)
    args = parser.parse_args()
    if args.environment is None:
        parser.error("give an environment, or set ORBIT_TEST_ENV")
    profile = load_profile(args.profile)
    gc.disable()  # as the audit does
    env = read_environment(Path(args.environment), profile, Silent())
    facts_bytes = resident_bytes(os.getpid())
    walls, cpus, peaks = [], [], []
    depth = None
    for _ in range(args.rounds):
        del depth  # one at a time, as in an audit
        cpu = cpu_seconds()
        with Meter() as meter:
            depth = read_depth(env.layout.prefix, env.objects, profile.targets, Silent(), workers=args.workers)
        walls.append(meter.seconds)
        cpus.append(cpu_seconds() - cpu)
        peaks.append(meter.peak_bytes)
    began = time.perf_counter()
    findings = [finding for module in DEPTH for finding in module.check(env, load_policy(profile), depth)]
    rules_s = time.perf_counter() - began
    baseline = make_baseline(depth, env.in_site)
    results = {
        "load_average": os.getloadavg()[0],
        "processors": len(os.sched_getaffinity(0)),
        "rounds": args.rounds,
        "wall_s": round(statistics.median(walls), 2),
        "cpu_s": round(statistics.median(cpus), 2),
        "facts_mb": round(facts_bytes / 1e6),
        "peak_mb": round(peaks[0] / 1e6),
        "files": len(depth.files),
        "images": depth.num_images,
        "read_bytes": depth.payload_bytes,
        "unpacked_bytes": depth.unpacked_bytes,
        "kernels": sum(len(kernels) for kernels in baseline.files.values()),
        "rules_s": round(rules_s, 2),
        "findings": len(findings),
    }
    sys.stdout.write(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
