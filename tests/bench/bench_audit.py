"""How fast the audit is on a real environment.

    ORBIT_TEST_ENV=PREFIX python tests/bench/bench_audit.py [--rounds N] [--cold] [--cuobjdump] [--sha256sum]

Prints medians over N rounds of: listing, metadata, ELF and fatbin headers, the header walk of device code alone, and
the whole command in a process of its own with its peak memory: with remembered facts, and with every file hashed.
``--cuobjdump`` runs NVIDIA's tool over the same files in the same run (at most three rounds) and gives the ratio of
the medians, ``--sha256sum`` hashes the files of all RECORDs with sha256sum on all processors. ``--cold`` drops the
files from the page cache before one more full audit. CPU seconds are given beside wall seconds because a busy machine
stretches the latter.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from orbit.audit.binary.fatbin import read_containers
from orbit.audit.files.objects import read_objects
from orbit.audit.installed.dists import installed_dists
from orbit.audit.installed.tree import find_layout, read_tree
from orbit.audit.run import audit_environment, without_collector
from orbit.core.proc import run
from orbit.profile.model import load_profile


def cpu_seconds() -> float:
    """User and system time of this process and its finished children."""
    parts = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(part.ru_utime + part.ru_stime for part in parts)


def measure(action: Callable[[], object], rounds: int) -> dict[str, float]:
    """Median wall and CPU seconds of ``action``."""
    walls, cpus = [], []
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), cpu_seconds()
        action()
        walls.append(time.perf_counter() - wall)
        cpus.append(cpu_seconds() - cpu)
    return {
        "wall_s": round(statistics.median(walls), 3),
        "wall_best_s": round(min(walls), 3),
        "cpu_s": round(statistics.median(cpus), 3),
        "rounds": rounds,
    }


def command(argv: list[str], rounds: int, cache: str) -> dict[str, float]:
    """Median seconds and largest memory of ``orbit audit`` as a whole process."""
    samples = []
    for _ in range(rounds):
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "orbit", "audit", *argv],
            env={**os.environ, "ORBIT_CACHE": cache},
            stderr=subprocess.DEVNULL,
        )
        _pid, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        samples.append((wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode))
    return {
        "wall_s": round(statistics.median(s[0] for s in samples), 3),
        "wall_best_s": round(min(s[0] for s in samples), 3),
        "cpu_s": round(statistics.median(s[1] for s in samples), 3),
        "peak_mb": round(max(s[2] for s in samples)),
        "status": samples[-1][3],
        "rounds": rounds,
    }


def sha256sum(prefix: Path, rounds: int) -> dict[str, float]:
    """What coreutils need for the files that RECORDs list, on all processors."""
    layout = find_layout(prefix, "3.12")
    rows = {row.path: row.size for dist in installed_dists(layout) for row in dist.rows if row.digest}
    names = "".join(f"{prefix}/{path}\0" for path in sorted(rows, key=lambda path: -rows[path]))
    count = len(os.sched_getaffinity(0))

    def theirs() -> None:
        argv = ["xargs", "-0", "-P", str(count), "-n", "2000", "sha256sum"]
        run(argv, doing="hashing", stdin=names.encode("utf-8", "surrogateescape"), check=False)

    return measure(theirs, rounds)


def drop_page_cache(prefix: Path) -> None:
    """Ask the kernel to forget the content of every file under ``prefix`` (names and inodes stay cached)."""
    for folder, _folders, files in os.walk(prefix):
        for name in files:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                handle = os.open(path, os.O_RDONLY)
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(handle)


def main() -> int:
    """Measure, print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", nargs="?", default=os.environ.get("ORBIT_TEST_ENV"))
    parser.add_argument("--profile", default="cu130")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--cuobjdump", action="store_true")
    parser.add_argument("--sha256sum", action="store_true")
    args = parser.parse_args()
    if args.environment is None:
        parser.error("give an environment, or set ORBIT_TEST_ENV")
    prefix, profile = Path(args.environment), load_profile(args.profile)
    layout = find_layout(prefix, profile.python)
    results: dict[str, object] = {"load_average": os.getloadavg()[0], "processors": len(os.sched_getaffinity(0))}

    report = audit_environment(prefix, profile)  # also warms the page cache
    results["facts"] = report.facts
    tree = read_tree(layout.prefix)
    results["list"] = measure(lambda: read_tree(layout.prefix), args.rounds)
    results["metadata"] = measure(lambda: installed_dists(layout), args.rounds)
    results["headers"] = measure(lambda: read_objects(layout.prefix, tree), args.rounds)
    target = [str(prefix), "--profile", args.profile]
    with tempfile.TemporaryDirectory() as cache:
        command(target, 1, cache)
        results["orbit audit, facts remembered"] = command(target, args.rounds, cache)
        results["orbit audit --hash"] = command([*target, "--hash"], args.rounds, cache)
    if args.sha256sum:
        results["sha256sum, all processors"] = sha256sum(prefix, min(args.rounds, 3))

    device = [layout.prefix / layout.site / item.file for item in report.coverage]
    with without_collector():  # as the audit reads
        results["device code walk"] = {"files": len(device)} | measure(
            lambda: [read_containers(path) for path in device], args.rounds
        )
    if args.cuobjdump:
        tool = layout.prefix / layout.site / "nvidia" / "cu13" / "bin" / "cuobjdump"

        def theirs() -> None:
            for path in device:
                for flag in ("--list-elf", "--list-ptx"):
                    run([tool, flag, path], doing="listing device code", check=False)

        peer = measure(theirs, min(args.rounds, 3))
        ours = results["device code walk"]
        assert isinstance(ours, dict)
        results["cuobjdump, same files"] = peer | {"times ours": round(peer["wall_s"] / ours["wall_s"], 1)}
    if args.cold:
        drop_page_cache(prefix)
        results["audit, cold page cache"] = measure(lambda: audit_environment(prefix, profile), 1)
    json.dump(results, sys.stdout, indent=2)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
