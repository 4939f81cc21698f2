"""What slimming does to every library with device code of a real environment, file by file.

    ORBIT_TEST_ENV=PREFIX python tests/bench/bench_slim.py [--layout holes] [--ptx keep|newest|drop] [--json]

One row per library: bytes in the file, of device code, of entries that no target of the profile loads; size and room on
disk afterwards; compressed with zstd -3 before and after (one frame each: a layer compresses files together, so this is
close to, not equal to, what a layer saves); CPU seconds of planning and writing. Files whose licence forbids a changed
copy are measured too and marked: the totals are given with and without them. Nothing of the environment is changed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import zstandard

from orbit.audit.binary.elf import MalformedBinary
from orbit.audit.files.objects import elf_candidates
from orbit.audit.installed.dists import installed_dists
from orbit.audit.installed.tree import find_layout, read_tree
from orbit.core.records import convert
from orbit.image.slim.facts import FilePlan
from orbit.image.slim.plan import apply_plan, plan_file
from orbit.image.slim.rules import rules
from orbit.profile.model import SlimPolicy, load_profile

LEVEL = 3
COLUMNS = ("size", "device", "removed", "new_size", "disk", "packed", "new_packed")


class Counter:
    """A file that only counts."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, data: bytes) -> int:
        """Count ``data``."""
        self.size += len(data)
        return len(data)


def packed(path: Path) -> int:
    """Bytes of the file as one zstd frame."""
    counter = Counter()
    with path.open("rb") as file:
        zstandard.ZstdCompressor(level=LEVEL).copy_stream(file, counter)  # type: ignore[arg-type]
    return counter.size


def row_of(plan: FilePlan, path: Path, owner: str, folder: Path, planning: float) -> dict[str, Any]:
    """One library before and after."""
    row: dict[str, Any] = {
        "file": plan.path,
        "forbidden": rules().forbids(plan.path, owner) is not None,
        "layout": plan.layout,
        "why_not": plan.why_not,
        "entries": plan.removed_entries,
        "size": plan.size,
        "device": sum(container.size for container in plan.containers),
        "removed": plan.removed_bytes,
        "new_size": plan.new_size,
        "disk": path.stat().st_blocks * 512,
        "packed": packed(path),
        "plan_cpu_s": round(planning, 2),
    }
    row["new_packed"] = row["packed"]
    if plan.layout != "none":
        began = time.process_time()
        done = apply_plan(plan, path, folder / "slim.so")
        row["apply_cpu_s"] = round(time.process_time() - began, 2)
        row["disk"] = done.disk_bytes
        row["new_packed"] = packed(folder / "slim.so")
    return row


def totals(rows: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Sums of the byte columns."""
    rows = list(rows)
    return {column: sum(row[column] for row in rows) for column in COLUMNS}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="cu130")
    parser.add_argument("--layout", default="shrink")
    parser.add_argument("--ptx", default="keep")
    parser.add_argument("--others", default="leave")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    choice = {"ptx": args.ptx, "others": args.others, "layout": args.layout, "unproved": True, "licensed": True}
    policy = convert(choice, SlimPolicy, "the command line")
    profile = load_profile(args.profile)
    layout = find_layout(Path(os.environ["ORBIT_TEST_ENV"]), profile.python)
    owners = {item.path: dist.name for dist in installed_dists(layout) for item in dist.rows}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(elf_candidates(read_tree(layout.prefix))):
            name = path.removeprefix(f"{layout.site}/")
            began = time.process_time()
            try:
                plan = plan_file(layout.prefix / path, profile.targets, policy=policy, name=name)
            except MalformedBinary as error:
                print(f"{path}: {error.what}")
                continue
            if plan.containers:
                spent = time.process_time() - began
                rows.append(row_of(plan, layout.prefix / path, owners.get(path, ""), Path(folder), spent))
    rows.sort(key=lambda row: -row["removed"])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    free = [row for row in rows if not row["forbidden"]]
    result = {"rows": rows, "all": totals(rows), "allowed": totals(free), "peak_mb": round(peak)}
    if args.json:
        print(json.dumps(result, indent=1))
        return
    for row in [*rows, {"file": "allowed", **totals(free)}, {"file": "all", **totals(rows)}]:
        mark = "!" if row.get("forbidden") else " "
        numbers = " ".join(f"{column} {row[column] / 1e6:7.1f}" for column in COLUMNS)
        print(f"{mark} {row['file'][-52:]:52} {numbers} {row.get('layout', '')} {row.get('why_not', '')}")
    print(f"peak {peak:.0f} MB")


if __name__ == "__main__":
    main()
