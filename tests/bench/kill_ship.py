#!/usr/bin/env python3
"""Kill ``orbit ship`` at random moments, run it again, and compare the image digest with an undisturbed run.

    .venv/bin/python tests/bench/kill_ship.py [--profile probe] [--kills 20] [--in-a-row 4] [--seed 1]

An undisturbed run in a fresh cache gives the digest and the duration. Then, in a fresh cache, ``ship`` is started and
killed with SIGKILL after a random part of that duration, up to ``--in-a-row`` times, and run once more to the end (what
it started may live on, as on a real machine). This goes on until so many runs were really killed; one that ended by
itself first does not count. Exits 1 when any digest differs. Downloads stay in uv's own cache. Do not edit the checkout
meanwhile: it is part of the image.
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


def killed(child: subprocess.Popen[bytes], after_s: float) -> bool:
    """Kill ``child`` after so many seconds; False when it had ended by then."""
    try:
        child.communicate(timeout=after_s)
    except subprocess.TimeoutExpired:
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()
        return True
    return False


def main() -> int:
    """Run the rounds; print one line each and a verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="probe")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--in-a-row", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    chance = random.Random(args.seed)
    work = Path(tempfile.mkdtemp(prefix="orbit-kill-"))
    try:
        began = time.monotonic()
        expected = finish(args.profile, work / "reference", work / "dist")
        whole_s = time.monotonic() - began
        print(f"undisturbed: {expected} in {whole_s:.1f} s", flush=True)
        kills = differing = 0
        while kills < args.kills:
            shutil.rmtree(work / "cache", ignore_errors=True)
            moments: list[str] = []
            while len(moments) < min(args.in_a_row, args.kills - kills):
                after_s = chance.uniform(0.2, whole_s)
                if not killed(start(args.profile, work / "cache", work / "dist"), after_s):
                    break
                moments.append(f"{after_s:.1f}")
            digest = finish(args.profile, work / "cache", work / "dist")
            kills += len(moments)
            differing += digest != expected
            print(f"{kills:3} kills: after {', '.join(moments) or 'none'} s, then {digest[:19]}", flush=True)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{kills} kills, {differing} differing digests")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
