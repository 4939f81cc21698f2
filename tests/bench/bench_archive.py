#!/usr/bin/env python3
"""Archive and unpack a real environment, and do the same with the tools people use for it.

    .venv/bin/python tests/bench/bench_archive.py PREFIX [--work DIR] [--only NAME] [--keep | --count]

Each step is a process of its own, timed from outside: wall and processor seconds (children included), peak memory of
the largest process, bytes written. The file system's cache is emptied before each step when this runs as root. Steps:

    archive   orbit env archive PREFIX                     hydrate   orbit env hydrate
    tar-zstd  tar | zstd -3 -T0                            untar     zstd -d | tar x
    tar-gz    tar | gzip -1 (what conda-pack writes: tar.gz, one thread, level 1 in the field; it needs a conda prefix)

Unpacked trees are removed at once; archives at the end unless --keep. Needs about 1.5 times the size of PREFIX. With
--count archives are only counted, and nothing is unpacked: for a machine without that room.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def cold() -> None:
    """Forget what was read, where that is allowed."""
    os.sync()
    with contextlib.suppress(OSError):
        Path("/proc/sys/vm/drop_caches").write_text("3")


def measure(name: str, argv: list[str], size: Callable[[], int]) -> None:
    """Run one step and print its row."""
    cold()
    began = time.monotonic()
    child = subprocess.Popen(argv, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    os.sync()
    wall = time.monotonic() - began
    if child.returncode != 0:
        raise SystemExit(f"{name} ended with {child.returncode}")
    cpu = usage.ru_utime + usage.ru_stime
    row = f"{name:10} {size():>14,} bytes  wall {wall:7.1f} s  cpu {cpu:7.1f} s  peak {usage.ru_maxrss / 1024:7.0f} MiB"
    print(row, flush=True)


def tree_bytes(folder: Path) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def main() -> int:
    """Run all steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--count", action="store_true")
    args = parser.parse_args()
    prefix = args.prefix.resolve()
    work = Path(tempfile.mkdtemp(prefix="orbit-bench-", dir=args.work))
    own, other, gz, out = work / "own.tar.zst", work / "tar.zst", work / "tar.gz", work / "out"
    orbit = [sys.executable, "-m", "orbit", "env"]
    pipe = ["/bin/bash", "-o", "pipefail", "-c"]
    steps: dict[str, tuple[list[str], Callable[[], int]]] = {
        "archive": ([*orbit, "archive", str(prefix), "--output", str(own)], lambda: own.stat().st_size),
        "hydrate": ([*orbit, "hydrate", str(own), "--prefix", str(out)], lambda: tree_bytes(out)),
        "tar-zstd": ([*pipe, f"tar -C '{prefix}' -cf - . | zstd -q -3 -T0 -o '{other}'"], lambda: other.stat().st_size),
        "untar": ([*pipe, f"mkdir '{out}' && zstd -q -d -c '{other}' | tar -C '{out}' -xf -"], lambda: tree_bytes(out)),
        "tar-gz": ([*pipe, f"tar -C '{prefix}' -cf - . | gzip -1 > '{gz}'"], lambda: gz.stat().st_size),
    }
    if args.count:
        count = f"wc -c > '{work}/bytes'"
        packing = {
            "archive": f"'{sys.executable}' -m orbit env archive '{prefix}' --output - | {count}",
            "tar-zstd": f"tar -C '{prefix}' -cf - . | zstd -q -3 -T0 | {count}",
            "tar-gz": f"tar -C '{prefix}' -cf - . | gzip -1 | {count}",
        }
        steps = {name: ([*pipe, line], lambda: int((work / "bytes").read_text())) for name, line in packing.items()}
    try:
        for name, (argv, size) in steps.items():
            if not args.only or name in args.only:
                measure(name, argv, size)
            if name in ("hydrate", "untar"):
                shutil.rmtree(out, ignore_errors=True)
            if name in ("hydrate", "untar", "tar-gz") and not args.keep:
                for file in (own, other, gz):
                    file.unlink(missing_ok=True)
    finally:
        if not args.keep:
            shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
