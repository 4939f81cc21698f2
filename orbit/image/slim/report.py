"""What slimming an image brought: by library and architecture, and what is pulled and unpacked before and after."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from orbit.core.records import Record, load_json
from orbit.image.build import ImageResult
from orbit.image.slim.facts import FilePlan
from orbit.image.slim.tree import EVIDENCE_PATH, SlimFile, SlimRecord, slim_file

SCHEMA = "orbit.image.slim-report/1"
SHOWN_LEFT = 12
"""Files that were left and are listed in the text, the largest first; JSON has all."""
MB = 1e6


class LayerChange(Record, frozen=True, kw_only=True):
    """One layer of the plain and of the slim image."""

    name: str
    pull_before: int
    """Bytes of the compressed layer."""
    pull_after: int
    unpacked_before: int
    unpacked_after: int


class SlimReport(Record, frozen=True, kw_only=True):
    """The answer of ``orbit image slim``."""

    schema: str = SCHEMA
    profile: str
    slim: SlimRecord
    disk_before: int
    """Room the files with device code take where holes are kept (the store, Orbit's own unpacked trees), in bytes."""
    disk_after: int
    plain_digest: str = ""
    """Empty when no image was made (``--dry-run``)."""
    digest: str = ""
    layout: str = ""
    layers: tuple[LayerChange, ...] = ()

    @property
    def pull_ratio(self) -> float:
        """Bytes to pull of the slim image over those of the plain one; 1 when no image was made."""
        before = sum(layer.pull_before for layer in self.layers)
        return sum(layer.pull_after for layer in self.layers) / before if before else 1.0


def read_evidence(prefix: Path) -> SlimRecord:
    """What a slimmed environment says of itself. Raises :class:`orbit.errors.InputError` when it is none."""
    return load_json(prefix / EVIDENCE_PATH, SlimRecord)


def of_plans(plans: Iterable[tuple[FilePlan, str]]) -> tuple[SlimFile, ...]:
    """What would become of each file; hashes of files that would be written are empty."""
    return tuple(slim_file(plan, owner, "") for plan, owner in plans)


def compare_layers(plain: ImageResult, slim: ImageResult) -> tuple[LayerChange, ...]:
    """The layers of both images by name, in the order of the plain one."""
    after = {layer.name: layer for layer in slim.layers}
    return tuple(
        LayerChange(
            name=layer.name,
            pull_before=layer.size,
            pull_after=after[layer.name].size,
            unpacked_before=layer.tar_bytes,
            unpacked_after=after[layer.name].tar_bytes,
        )
        for layer in plain.layers
    )


def disk_bytes(site: Path, files: Iterable[SlimFile]) -> int:
    """Room the files take on this file system."""
    return sum((site / item.path).stat().st_blocks * 512 for item in files)


def removed_by_arch(files: Iterable[SlimFile]) -> dict[str, tuple[int, int]]:
    """(entries, bytes) taken out, by architecture."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for item in files:
        if item.layout != "none":
            for arch in item.archs:
                if not arch.keep:
                    found[arch.arch][0] += arch.entries
                    found[arch.arch][1] += arch.bytes
    return {name: (entries, size) for name, (entries, size) in sorted(found.items())}


def removable(item: SlimFile) -> int:
    """Bytes of entries that no target loads, taken out or not."""
    return sum(arch.bytes for arch in item.archs if not arch.keep)


def render(report: SlimReport) -> str:
    """The report for people."""
    changed = sorted(report.slim.changed, key=lambda item: -item.removed_bytes)
    lines = [f"{'library':58} {'before':>9} {'after':>9} {'removed':>9}  how"]
    for item in changed:
        how = "file is shorter" if item.layout == "shrink" else f"zeros in place: {item.why_not}"
        name = item.path if len(item.path) <= 58 else f"...{item.path[-55:]}"
        lines.append(f"{name:58} {_mb(item.original_size)} {_mb(item.size)} {_mb(item.removed_bytes)}  {how}")
    if not changed:
        lines.append("(none)")
    if removed := removed_by_arch(report.slim.files):
        lines += ["", "removed by architecture"]
        lines += [f"  {arch:12} {entries:7} entries {_mb(size)} MB" for arch, (entries, size) in removed.items()]
    lines += _left(report.slim.files)
    if report.layers:
        lines += ["", f"{'layer':24} {'pull MB':>9} {'slim':>9} {'unpacked':>9} {'slim':>9}"]
        lines += [
            f"{layer.name:24} {_mb(layer.pull_before)} {_mb(layer.pull_after)}"
            f" {_mb(layer.unpacked_before)} {_mb(layer.unpacked_after)}"
            for layer in report.layers
        ]
        pull = [sum(layer.pull_before for layer in report.layers), sum(layer.pull_after for layer in report.layers)]
        full = [
            sum(layer.unpacked_before for layer in report.layers),
            sum(layer.unpacked_after for layer in report.layers),
        ]
        lines.append(f"{'total':24} {_mb(pull[0])} {_mb(pull[1])} {_mb(full[0])} {_mb(full[1])}")
        lines.append(f"to pull: {report.pull_ratio:.0%} of the plain image, {report.plain_digest}")
        lines += ["", f"image  {report.digest}", f"layout {report.layout}"]
    else:
        lines += ["", "nothing was changed"]
    return "\n".join(lines)


def _left(files: Iterable[SlimFile]) -> list[str]:
    """Files that would lose something and were not touched, by reason."""
    left = sorted((item for item in files if item.layout == "none" and removable(item)), key=lambda i: -removable(i))
    if not left:
        return []
    lines = ["", f"left alone, with {_mb(sum(map(removable, left))).strip()} MB that no target loads"]
    lines += [f"  {item.path}  {_mb(removable(item)).strip()} MB: {item.why_not}" for item in left[:SHOWN_LEFT]]
    if len(left) > SHOWN_LEFT:
        lines.append(f"  and {len(left) - SHOWN_LEFT} more (--json has all)")
    return lines


def _mb(size: int) -> str:
    return f"{size / MB:9.1f}"
