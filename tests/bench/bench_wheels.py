"""The audit of wheels against auditwheel and abi3audit: the same files, the same verdicts, and what each of them costs.

    python tests/bench/bench_wheels.py --auditwheel PROGRAM [--abi3audit PROGRAM] [--rounds N] WHEEL...

Every tool is a process of its own, the rounds take turns, and medians are printed. Ours is `orbit audit --format json`,
which also hashes every member and reads device code. The verdicts compared are the lowest glibc that the symbols of a
wheel fit (auditwheel's `sym_tag`) and, for stable-ABI wheels, the symbols outside the stable ABI and those younger than
the floor. Modules with an interpreter in their name promise nothing of the kind and are left out (abi3audit takes
them). CPU seconds are user and system time of the process and its children; a busy machine stretches the wall.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orbit.audit.archives.wheels import read_wheels
from orbit.audit.known.policies import lowest_floor
from orbit.audit.rules.abi import stable_abi
from orbit.audit.rules.abi.wheel_tag import needs_of
from orbit.core.console import Silent
from orbit.core.proc import run
from orbit.profile.model import load_profile


def timed(argv: Sequence[str]) -> tuple[float, float, bytes]:
    """(wall seconds, CPU seconds, standard output) of one process; a verdict of "bad" is no failure."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    output = run(argv, doing=f"running {argv[0]}", check=False).stdout
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, output


def ours_of(wheel: Path) -> dict[str, Any]:
    """Our verdicts on one wheel."""
    env = read_wheels([wheel], load_profile("cu130"), Silent())
    floor = lowest_floor(needs_of(env.objects), "x86_64")
    used = stable_abi.used_of(env).values()
    return {
        "symbols fit": f"manylinux_2_{floor}_x86_64" if floor else "linux_x86_64",
        "unstable": sorted({name for item in used for name in item.unstable}),
        "later": sorted({name for item in used for name in item.later}),
    }


def auditwheel_of(output: bytes) -> dict[str, Any]:
    """What auditwheel says; None for what it does not judge (no ELF file)."""
    try:
        return {"symbols fit": json.loads(output)["sym_tag"]}
    except (ValueError, KeyError):
        return {"symbols fit": None}


def abi3audit_of(output: bytes) -> dict[str, Any]:
    """What abi3audit says of all modules of the wheel; None for what is no stable-ABI wheel."""
    try:
        (spec,) = json.loads(output)["specs"].values()
        results = [item["result"] for item in spec["wheel"] if ".cpython-" not in item["name"]]
    except (ValueError, KeyError):
        return {"unstable": None, "later": None}
    return {
        "unstable": sorted({name for item in results for name in item["non_abi3_symbols"]}),
        "later": sorted({name for item in results for name in item["future_abi3_objects"]}),
    }


def main() -> int:
    """Compare, measure, print one JSON object; status 1 when a verdict differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", nargs="+", type=Path)
    parser.add_argument("--auditwheel", required=True)
    parser.add_argument("--abi3audit", default="")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    rows, differing = [], 0
    for wheel in args.wheels:
        commands = {
            "orbit": [sys.executable, "-m", "orbit", "audit", "--format", "json", str(wheel)],
            "auditwheel": [args.auditwheel, "show", "--json", str(wheel)],
        }
        if args.abi3audit and "abi3" in wheel.name:
            commands["abi3audit"] = [args.abi3audit, "--report", str(wheel)]
        runs: dict[str, list[tuple[float, float, bytes]]] = {name: [] for name in commands}
        for _ in range(args.rounds):
            for name, argv in commands.items():
                runs[name].append(timed(argv))
        theirs = auditwheel_of(runs["auditwheel"][0][2])
        if "abi3audit" in runs:
            theirs |= abi3audit_of(runs["abi3audit"][0][2])
        ours = ours_of(wheel)
        different = {
            key: [ours[key], value] for key, value in theirs.items() if value is not None and value != ours[key]
        }
        differing += bool(different)
        rows.append(
            {
                "wheel": wheel.name,
                "megabytes": round(wheel.stat().st_size / 1e6, 1),
                "cpu_s": {
                    name: round(statistics.median(cpu for _, cpu, _ in found), 2) for name, found in runs.items()
                },
                "wall_s": {
                    name: round(statistics.median(wall for wall, _, _ in found), 2) for name, found in runs.items()
                },
                "verdict": {key: value for key, value in theirs.items() if key == "symbols fit"},
                "different": different,
            }
        )
    json.dump({"rounds": args.rounds, "differing": differing, "wheels": rows}, sys.stdout, indent=1)
    print()
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
