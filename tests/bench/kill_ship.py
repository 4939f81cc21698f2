#!/usr/bin/env python3
"""Kill ``orbit ship`` at random moments, run it again, and compare the image digest with an undisturbed run.

    .venv/bin/python tests/bench/kill_ship.py [--profile probe] [--rounds 20] [--seed 1]

An undisturbed run in a fresh cache gives the digest and the duration. Each round starts ``ship`` (in a fresh cache
every ``--fresh-every`` rounds), kills it with SIGKILL after a random part of that duration (what it started may live
on, as on a real machine), and runs it again. Exits 1 when any digest differs. Downloads stay in uv's own cache.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def start(profile: str, cache: Path, dist: Path) -> subprocess.Popen[bytes]:
    """One ``ship`` in its own process group."""
    argv = [sys.executable, "-m", "orbit", "ship", "--profile", profile, "--dist", str(dist), "--no-smoke", "--json"]
    return subprocess.Popen(
        argv,
        env=os.environ | {"ORBIT_CACHE": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def finish(profile: str, cache: Path, dist: Path) -> str:
    """A run that is left alone; returns its image digest."""
    out, err = (child := start(profile, cache, dist)).communicate()
    if child.returncode != 0:
        raise SystemExit(f"an undisturbed run failed with {child.returncode}:\n{err.decode()[-2000:]}")
    return str(json.loads(out)["image_digest"])


def main() -> int:
    """Run the rounds; print one line each and a verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="probe")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--fresh-every", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    chance = random.Random(args.seed)
    work = Path(tempfile.mkdtemp(prefix="orbit-kill-"))
    try:
        began = time.monotonic()
        expected = finish(args.profile, work / "reference", work / "dist")
        whole_s = time.monotonic() - began
        print(f"undisturbed: {expected} in {whole_s:.1f} s", flush=True)
        differing = 0
        for number in range(args.rounds):
            if number % args.fresh_every == 0:
                shutil.rmtree(work / "cache", ignore_errors=True)
            child = start(args.profile, work / "cache", work / "dist")
            after_s = chance.uniform(0.2, whole_s)
            try:
                child.communicate(timeout=after_s)
                how = "ended by itself"
            except subprocess.TimeoutExpired:
                os.kill(child.pid, signal.SIGKILL)
                child.communicate()
                how = "killed"
            digest = finish(args.profile, work / "cache", work / "dist")
            differing += digest != expected
            print(f"round {number + 1:2}: {how} after {after_s:5.1f} s, then {digest[:19]}", flush=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{args.rounds - differing} of {args.rounds} rounds ended in the same digest")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
