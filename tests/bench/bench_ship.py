#!/usr/bin/env python3
"""Time the two runs people wait for: ``ship`` with nothing changed, and after an edit of one file of ``orbit/``.

    .venv/bin/python tests/bench/bench_ship.py [--profile cu130] [--rounds 5]

Needs a cache in which the profile was shipped before (the first run here says so otherwise). Whole processes are timed
from outside; each figure is min / median / max over the rounds. The edit happens in a temporary copy of the checkout
and is another one in every round; smoke is left out there, because it must run again when the image changed.
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

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", ".uv", "dist", "*_cache", "__pycache__", ".hypothesis")


def ship(root: Path, dist: Path, *args: str) -> tuple[float, dict[str, object]]:
    """Seconds and summary of one ``ship`` from the checkout at ``root``."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "orbit", "ship", "--dist", str(dist), "--json", *args],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - began
    if done.returncode != 0:
        raise SystemExit(f"ship ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return seconds, json.loads(done.stdout)


def layers(summary: dict[str, object]) -> dict[str, str]:
    """Digest of each layer by name."""
    stages = summary["stages"]
    assert isinstance(stages, list)
    found: dict[str, str] = next(stage for stage in stages if stage["stage"] == "image")["outputs"]["layers"]
    return found


def line(what: str, seconds: list[float]) -> str:
    """One row of the report."""
    return f"{what:42} {min(seconds):6.2f} / {statistics.median(seconds):6.2f} / {max(seconds):6.2f} s"


def main() -> int:
    """Run both and print a row each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="cu130")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="orbit-bench-"))
    try:
        profile = ("--profile", args.profile)
        first_s, before = ship(ROOT, work / "dist", *profile)
        print(f"{'first run here':42} {first_s:6.2f} s")
        print(line("nothing changed", [ship(ROOT, work / "dist", *profile)[0] for _ in range(args.rounds)]))
        copy = work / "checkout"
        shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
        edited = []
        for number in range(args.rounds):
            with (copy / "orbit" / "errors.py").open("a") as file:
                file.write(f"# edit {number}\n")
            seconds, after = ship(copy, work / "dist", *profile, "--no-smoke")
            changed = {name for name, digest in layers(after).items() if layers(before).get(name) != digest}
            if changed != {"orbit"}:
                raise SystemExit(f"an edit of orbit/ changed the layers {sorted(changed)}")
            before = after
            edited.append(seconds)
        print(line("one file of orbit/ edited, without smoke", edited))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
