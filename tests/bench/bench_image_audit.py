"""How fast the facts of an image are read, against those of the same environment on disk.

    python tests/bench/bench_image_audit.py LAYOUT --environment PREFIX [--rounds N]

LAYOUT is an image (``orbit ship`` leaves one in its dist folder), PREFIX the environment that went into it. Prints
medians over N rounds, taken in turn so that a busy machine slows all of them alike: the environment with every file
hashed, the image with nothing remembered, the image with remembered layers, and what must be done at least (reading and
hashing the blobs, decompressing them, hashing what is in them, on one processor). CPU seconds of children are included.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from orbit.audit.images.decompress import PIECE_BYTES, decompressed
from orbit.audit.images.image import read_image
from orbit.audit.images.image_source import FolderArchive, read_image_ref
from orbit.audit.installed.environment import read_environment
from orbit.core.console import Silent
from orbit.core.meter import Meter
from orbit.profile.model import load_profile

ENVIRONMENT, FRESH = "environment, every file hashed", "image, nothing remembered"
REMEMBERED = "image, layers remembered"


def cpu_seconds() -> float:
    """User and system time of this process and its finished children."""
    parts = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(part.ru_utime + part.ru_stime for part in parts)


def once(what: str, target: str, profile_name: str, cache: str) -> tuple[float, float, int]:
    """Wall seconds, CPU seconds and peak bytes (with children) of reading one target in a process of its own."""
    profile = load_profile(profile_name)
    gc.disable()
    with Meter() as meter:
        if what == ENVIRONMENT:
            read_environment(Path(target), profile, Silent())
        else:
            read_image(target, profile, Silent(), Path(cache) if what == REMEMBERED else None)
    return meter.seconds, cpu_seconds(), meter.peak_bytes


def pieces(path: Path) -> Iterator[bytes]:
    """A file in pieces."""
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(PIECE_BYTES):
            yield piece


def floor(layers: list[Path]) -> dict[str, float]:
    """CPU seconds of the parts that cannot be left out, in one thread each, one after the other."""
    found = {"sha256 of the blobs": 0.0, "decompression": 0.0, "sha256 of the content": 0.0}
    for path in layers:
        began = time.process_time()
        state = hashlib.sha256()
        for piece in pieces(path):
            state.update(piece)
        found["sha256 of the blobs"] += time.process_time() - began
        hashing, began = 0.0, time.process_time()
        for piece in decompressed(pieces(path), path.name):
            before = time.process_time()
            state.update(piece)
            hashing += time.process_time() - before
        found["sha256 of the content"] += hashing
        found["decompression"] += time.process_time() - began - hashing
    return {name: round(seconds, 2) for name, seconds in found.items()}


def main() -> int:
    """Measure, print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layout")
    parser.add_argument("--environment", type=Path, required=True)
    parser.add_argument("--profile", default="cu130")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    targets = {ENVIRONMENT: args.environment, FRESH: args.layout, REMEMBERED: args.layout}
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as cache, ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
        pool.submit(once, REMEMBERED, args.layout, args.profile, cache).result()  # fills the page cache, too
        rounds = []
        for _ in range(args.rounds):
            tasks = {name: (once, name, str(target), args.profile, cache) for name, target in targets.items()}
            rounds.append({name: pool.submit(*task).result() for name, task in tasks.items()})
    results: dict[str, object] = {
        "load_average": os.getloadavg()[0],
        "processors": len(os.sched_getaffinity(0)),
        "rounds": args.rounds,
    }
    for name in targets:
        walls, cpus, peaks = zip(*(one[name] for one in rounds), strict=True)
        results[name] = {
            "wall_s": round(statistics.median(walls), 2),
            "wall_best_s": round(min(walls), 2),
            "cpu_s": round(statistics.median(cpus), 2),
            "peak_mb": round(max(peaks) / 1e6),
        }
    archive = FolderArchive(Path(args.layout))
    places = [archive.place(ref.name) for ref in read_image_ref(archive, args.layout, "amd64")[0].layers]
    results["at least, CPU seconds"] = floor([place.path for place in places if place is not None])
    json.dump(results, sys.stdout, indent=2)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
