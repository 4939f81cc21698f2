#!/usr/bin/env python3
"""Time ``orbit env create`` after one dependency was bumped, and show that the result is the one made from nothing.

    .venv/bin/python tests/bench/bench_env.py [--profile cu130] [--bump tqdm==4.67.1] [--rounds 3] [--from-nothing]

Needs the network and a cache in which the profile's kernels are built. The environment of this checkout is made first
if it is not there. The bump happens in a temporary copy of the checkout (``uv lock -P``, not counted); the new one
takes over from the first and is removed after each round. Whole processes are timed from outside: wall, processor
time and peak memory; each figure is min / median / max.

``--from-nothing`` also makes the bumped environment in an empty store beside the cache (another 10 GB, minutes) and
compares the two: manifests and digests of every file.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", ".uv", "dist", "*_cache", "__pycache__", ".hypothesis")
MADE = """
import sys
from pathlib import Path
from orbit.core.console import Console
from orbit.core.paths import checkout_root
from orbit.core.store import Store, open_store
from orbit.env.create import create_environment
from orbit.kernels.build import build_kernels
from orbit.profile.model import load_profile
profile, root = load_profile(sys.argv[1]), checkout_root()
wheelhouse = build_kernels(profile, root, open_store(), tier="core", progress=Console())
entry = create_environment(profile, root, wheelhouse, Store(Path(sys.argv[2])), progress=Console())
print(entry.path)
"""


def run(root: Path, *argv: str) -> tuple[dict[str, float], str]:
    """Costs and stdout of one Python process in the checkout ``root``."""
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(
            [sys.executable, *argv], cwd=root, env=os.environ | {"PYTHONPATH": str(root)}, stdout=out
        )
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - began
        out.seek(0)
        text = out.read()
    if child.returncode != 0:
        raise SystemExit(f"{' '.join(argv[:3])} ended with {child.returncode}")
    return {"wall": seconds, "cpu": usage.ru_utime + usage.ru_stime, "peak": usage.ru_maxrss / 1024}, text


def create(root: Path, profile: str) -> tuple[dict[str, float], dict[str, Any]]:
    """Costs and answer of one ``orbit env create``."""
    costs, text = run(root, "-m", "orbit", "env", "create", "--profile", profile, "--json")
    answer: dict[str, Any] = json.loads(text)
    return costs, answer


def row(what: str, costs: list[dict[str, float]]) -> str:
    """One line of the report."""
    parts = []
    for name, unit in (("wall", "s"), ("cpu", "s"), ("peak", "MiB")):
        found = [cost[name] for cost in costs]
        parts.append(f"{name} {min(found):.1f} / {statistics.median(found):.1f} / {max(found):.1f} {unit}")
    return f"{what:28} {', '.join(parts)}"


def bumped_checkout(work: Path, bump: str) -> Path:
    """A copy of this checkout with another version of one dependency in its lock."""
    copy = work / "checkout"
    shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
    argv = [
        os.fspath(Path(sys.executable).with_name("uv")),
        "lock",
        "--no-config",
        "--python",
        sys.executable,
        "-P",
        bump,
    ]
    subprocess.run(argv, cwd=copy, check=True, env={k: v for k, v in os.environ.items() if k != "VIRTUAL_ENV"})
    if (copy / "uv.lock").read_bytes() == (ROOT / "uv.lock").read_bytes():
        raise SystemExit(f"--bump {bump}: the lock has that version already")
    return copy


def main() -> int:
    """Run all and print a row each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="cu130")
    parser.add_argument("--bump", default="tqdm==4.67.1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--from-nothing", action="store_true")
    args = parser.parse_args()
    first, before = create(ROOT, args.profile)
    print(row("already there" if before["reused"] else "made", [first]))
    print(row("nothing changed", [create(ROOT, args.profile)[0] for _ in range(args.rounds)]))
    base = Path(before["prefix"]).parent
    work = Path(tempfile.mkdtemp(prefix="orbit-bench-"))
    other = base.parents[2] / f"bench-{os.getpid()}"
    try:
        copy = bumped_checkout(work, args.bump)
        costs = []
        for number in range(args.rounds):
            cost, answer = create(copy, args.profile)
            outputs, entry = answer["outputs"], Path(answer["prefix"]).parent
            if answer["reused"] or not outputs["taken_over"] or entry == base:
                raise SystemExit(f"{entry}: nothing was taken over; remove that entry and run this again")
            costs.append(cost)
            print(f"  taken over {outputs['taken_over']} of {outputs['distributions']}: {outputs['seconds']}")
            if number == args.rounds - 1 and args.from_nothing:
                cost, text = run(copy, "-c", MADE, args.profile, str(other))
                print(row("bumped, from nothing", [cost]))
                for name in ("manifest.tsv", "contents.tsv"):
                    if (entry / name).read_bytes() != (Path(text.strip()) / name).read_bytes():
                        raise SystemExit(f"{name} of {entry} and of {text.strip()} differ")
                    print(f"  {name}: equal")
            shutil.rmtree(entry)
        print(row(f"bumped {args.bump}", costs))
    finally:
        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(other, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
