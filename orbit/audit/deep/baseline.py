"""The kernels of one build written down, and what differs between two builds.

A baseline is a zstd-compressed JSON file with sorted keys, so equal builds give equal files:

    {"schema": "orbit.depth/1", "files": {"pkg/_c.so": {"_Z4addsPf": {"sm_90a": 2048, "sm_100a": 256}}},
     "stubs": {"pkg/_c.so": {"_Z4addsPf": {"sm_100a": "empty"}}}}

Numbers are bytes of machine code, summed over the containers that have the kernel; only images that some target would
load are in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec
import zstandard

from orbit.audit.deep.depth import Depth, FileDepth
from orbit.audit.known.device import readable_name
from orbit.core.files import read_file, write_atomic
from orbit.core.records import Record, compact_json
from orbit.errors import InputError

MAX_FILE_BYTES = 1 << 28
MAX_JSON_BYTES = 1 << 30
SHOWN = 5

type Sizes = dict[str, dict[str, int]]
"""Bytes of code by kernel and architecture."""


class Baseline(Record, frozen=True, kw_only=True):
    """The kernels of one build, by file."""

    schema: Literal["orbit.depth/1"] = "orbit.depth/1"
    files: dict[str, Sizes]
    stubs: dict[str, dict[str, dict[str, str]]] = {}
    """For kernels that do nothing: ``empty``, ``trap`` or ``message``, by file, kernel and architecture."""


class KernelChange(Record, frozen=True, kw_only=True):
    """A kernel whose code changed on one architecture."""

    kernel: str
    arch: str
    before: int
    """Bytes of code."""
    after: int


class FileDiff(Record, frozen=True, kw_only=True):
    """What differs in one file that both builds have."""

    file: str
    added: tuple[str, ...] = ()
    """Kernels that only the second build has, on any architecture."""
    removed: tuple[str, ...] = ()
    archs_added: dict[str, tuple[str, ...]] = {}
    """Kernels of both builds that the second has for a further architecture, by that architecture."""
    archs_removed: dict[str, tuple[str, ...]] = {}
    stubbed: tuple[KernelChange, ...] = ()
    """Kernels that worked and do nothing now."""
    revived: tuple[KernelChange, ...] = ()
    """Kernels that did nothing and work now."""
    resized: tuple[KernelChange, ...] = ()
    """Other kernels of another size, the largest difference first."""
    code_bytes: dict[str, tuple[int, int]] = {}
    """(before, after) of the whole file by architecture, where it differs."""


class DepthDiff(Record, frozen=True, kw_only=True):
    """What differs between two builds."""

    files_added: tuple[str, ...] = ()
    files_removed: tuple[str, ...] = ()
    files: tuple[FileDiff, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.files_added or self.files_removed or self.files)


def make_baseline(depth: Depth, name: Callable[[str], str] = str) -> Baseline:
    """The baseline of what was read; ``name`` turns paths into what is compared (``Environment.in_site``)."""
    files: dict[str, Sizes] = {}
    stubs: dict[str, dict[str, dict[str, str]]] = {}
    for item in depth.files:
        sizes, working = _sizes(item)
        files[name(item.path)] = sizes
        idle = {
            kernel: found
            for kernel, kinds in working.items()
            if (found := {arch: max(seen) for arch, seen in kinds.items() if "" not in seen})
        }
        if idle:
            stubs[name(item.path)] = idle
    return Baseline(files=files, stubs=stubs)


def _sizes(item: FileDepth) -> tuple[Sizes, dict[str, dict[str, set[str]]]]:
    sizes: Sizes = {}
    kinds: dict[str, dict[str, set[str]]] = {}
    for box in item.containers:
        for image in {id(image): image for image in box.loaded.values()}.values():
            for kernel in image.kernels.values():
                row = sizes.setdefault(kernel.name, {})
                row[image.arch] = row.get(image.arch, 0) + kernel.code_bytes
                kinds.setdefault(kernel.name, {}).setdefault(image.arch, set()).add(kernel.stub)
    return sizes, kinds


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write it, whole or not at all. Equal baselines give equal bytes (with one version of zstd)."""
    write_atomic(path, zstandard.ZstdCompressor(level=10).compress(compact_json(baseline)))


def read_baseline(path: Path) -> Baseline:
    """Read one back. Raises :class:`InputError` when it is not a baseline; OSError as it comes."""
    packed = read_file(path, MAX_FILE_BYTES)
    fix = "give a file that `orbit audit --deep` wrote as its baseline"
    try:
        with zstandard.ZstdDecompressor().stream_reader(packed) as stream:
            data = stream.read(MAX_JSON_BYTES + 1)
        if len(data) > MAX_JSON_BYTES:
            raise InputError(f"{path}: too large for a baseline", fix=fix)
        return msgspec.json.decode(data, type=Baseline)
    except (zstandard.ZstdError, msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{path}: not a baseline of kernels: {error}", fix=fix) from None


def diff_baselines(before: Baseline, after: Baseline) -> DepthDiff:
    """What differs, sorted by file and kernel."""
    common = sorted(before.files.keys() & after.files.keys())
    pairs = (_diff_file(name, before, after) for name in common)
    return DepthDiff(
        files_added=tuple(sorted(after.files.keys() - before.files.keys())),
        files_removed=tuple(sorted(before.files.keys() - after.files.keys())),
        files=tuple(found for found in pairs if found != FileDiff(file=found.file)),
    )


def _diff_file(name: str, before: Baseline, after: Baseline) -> FileDiff:
    old, new = before.files[name], after.files[name]
    idle_old, idle_new = before.stubs.get(name, {}), after.stubs.get(name, {})
    more: dict[str, list[str]] = {}
    less: dict[str, list[str]] = {}
    groups: dict[str, list[KernelChange]] = {"stubbed": [], "revived": [], "resized": []}
    for kernel in sorted(old.keys() & new.keys()):
        for arch in sorted(old[kernel].keys() | new[kernel].keys()):
            if arch not in old[kernel]:
                more.setdefault(arch, []).append(kernel)
            elif arch not in new[kernel]:
                less.setdefault(arch, []).append(kernel)
            else:
                was, now = arch in idle_old.get(kernel, {}), arch in idle_new.get(kernel, {})
                change = KernelChange(kernel=kernel, arch=arch, before=old[kernel][arch], after=new[kernel][arch])
                if was != now:
                    groups["revived" if was else "stubbed"].append(change)
                elif change.before != change.after:
                    groups["resized"].append(change)
    groups["resized"].sort(key=lambda change: -abs(change.after - change.before))
    return FileDiff(
        file=name,
        added=tuple(sorted(new.keys() - old.keys())),
        removed=tuple(sorted(old.keys() - new.keys())),
        archs_added={arch: tuple(kernels) for arch, kernels in sorted(more.items())},
        archs_removed={arch: tuple(kernels) for arch, kernels in sorted(less.items())},
        code_bytes=dict(_totals(old, new)),
        **{key: tuple(changes) for key, changes in groups.items()},
    )


def _totals(old: Sizes, new: Sizes) -> Iterator[tuple[str, tuple[int, int]]]:
    for arch in sorted({arch for sizes in (old, new) for row in sizes.values() for arch in row}):
        was, now = (sum(row.get(arch, 0) for row in sizes.values()) for sizes in (old, new))
        if was != now:
            yield arch, (was, now)


def render_depth_diff(diff: DepthDiff) -> str:
    """For people: what may break first, then sizes."""
    if diff.equal:
        return "the kernels of both builds are the same\n"
    lines = [f"- {name}: not in the second build" for name in diff.files_removed]
    lines += [f"+ {name}: only in the second build" for name in diff.files_added]
    for item in diff.files:
        lines.append(item.file)
        lines += _group("kernels removed", item.removed)
        for arch, kernels in item.archs_removed.items():
            lines += _group(f"kernels no longer built for {arch}", kernels)
        lines += _group("kernels that do nothing now", [_change(change) for change in item.stubbed])
        lines += _group("kernels that did nothing and work now", [_change(change) for change in item.revived])
        lines += _group("kernels added", item.added)
        for arch, kernels in item.archs_added.items():
            lines += _group(f"kernels now also built for {arch}", kernels)
        lines += _group("kernels of another size", [_change(change) for change in item.resized])
        for arch, (was, now) in item.code_bytes.items():
            share = f" ({(now - was) / was:+.1%})" if was else ""
            lines.append(f"    code for {arch}: {was} -> {now} bytes{share}")
    return "\n".join(lines) + "\n"


def _group(title: str, kernels: tuple[str, ...] | list[str]) -> list[str]:
    if not kernels:
        return []
    rest = f" and {len(kernels) - SHOWN} more" if len(kernels) > SHOWN else ""
    return [f"    {title}: {len(kernels)}: " + "; ".join(readable_name(kernel) for kernel in kernels[:SHOWN]) + rest]


def _change(change: KernelChange) -> str:
    return f"{readable_name(change.kernel)} ({change.arch}: {change.before} -> {change.after} bytes)"
