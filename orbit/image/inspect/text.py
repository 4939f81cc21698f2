"""What is in an image, as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orbit.audit.reports.view import visible
from orbit.core.amounts import format_bytes
from orbit.image.inspect.kinds import KINDS
from orbit.image.inspect.records import Contents, Inspection, OwnerRow

NAME_CHARS = 44
LIMIT = 15
OTHERS = 3
"""Owners that are named with an architecture."""
TITLES = {"python": "Python distributions", "debian": "Debian packages", "other": "owned by nobody"}


def render(facts: Inspection, *, limit: int | None = LIMIT) -> str:
    """The facts for people; ``limit`` rows of each list, None for all."""
    lines = [f"image   {facts.digest}", ""]
    lines += _table(
        ("layer", "pull", "disk", "files", "digest"),
        [
            (_cut(row.name), _size(row.pull_bytes), _size(row.disk_bytes), _count(row.files),
             f"{(row.digest or row.diff_id)[7:19]} {row.codec}")
            for row in facts.layers
        ]
        + [("total", _size(facts.pull_bytes), _size(facts.disk_bytes), "", "")],
    )  # fmt: skip
    if facts.contents is not None:
        lines += _contents(facts.contents, limit)
    lines += ["", f"entrypoint  {visible(' '.join(facts.entrypoint))}", f"command     {visible(' '.join(facts.cmd))}"]
    lines += [f"env         {visible(variable)}" for variable in facts.env]
    lines += [f"label       {visible(f'{name} = {value}')}" for name, value in sorted(facts.labels.items())]
    if facts.verified:
        lines.append("every layer was read and is what its digest says")
    return "\n".join(line.rstrip() for line in lines)


def _contents(found: Contents, limit: int | None) -> Iterator[str]:
    yield ""
    yield from _table(
        ("what fills it", "pull", "disk", "files"),
        [(KINDS[row.kind], _size(row.pull_bytes), _size(row.disk_bytes), _count(row.files)) for row in found.kinds],
    )
    yield from _architectures(found, limit)
    for kind, title in TITLES.items():
        owners = [row for row in found.owners if row.kind == kind and row.files]
        if owners:
            yield from _owners(title, owners, found, limit)
    yield ""
    yield from _table(
        ("pull", "disk", "largest files"),
        [
            (_size(row.pull_bytes), _size(row.disk_bytes), f"{visible(row.path)}  {visible(row.owner)}")
            for row in found.largest[:limit]
        ],
    )
    yield ""
    yield f"equal content in several places: {format_bytes(found.duplicate_bytes)} beyond one copy each"
    for copy in found.duplicates[: limit if limit is None else limit // 3]:
        more = f" and {copy.copies - 2} more" if copy.copies > 2 else ""
        yield f"  {format_bytes(copy.waste_bytes):>9}  {', '.join(map(visible, copy.paths[:2]))}{more}"
    if found.hidden_bytes or found.hidden:
        yield f"replaced or removed by upper layers: {format_bytes(found.hidden_bytes)}"
        for row in found.hidden[: limit if limit is None else limit // 3]:
            yield f"  {format_bytes(row.disk_bytes):>9}  {visible(row.path)} of layer {_cut(row.layer)}"


def _architectures(found: Contents, limit: int | None) -> Iterator[str]:
    if not found.architectures:
        return
    rows = []
    for row in found.architectures[:limit]:
        names = list(row.owners)
        more = f" and {len(names) - OTHERS} more" if len(names) > OTHERS else ""
        used = ", ".join(row.sass) or (f"at run time: {', '.join(row.jit)}" if row.jit else "no target")
        rows.append(
            (row.arch, _size(row.pull_bytes), _size(row.disk_bytes), used if found.targets else "-",
             ", ".join(map(visible, names[:OTHERS])) + more)
        )  # fmt: skip
    yield ""
    yield from _table(("device code", "pull", "disk", "used by", "in"), rows)
    if found.unused_bytes == 0:
        yield "every architecture has a target that uses it"
    elif found.unused_bytes is not None:
        pull = f" ({format_bytes(found.unused_pull_bytes)} to pull)" if found.unused_pull_bytes is not None else ""
        share = 100 * found.unused_bytes / (found.device_bytes or 1)
        named = ", ".join(f"{target.name} ({target.arch})" for target in found.targets)
        yield f"no use for {named}: {format_bytes(found.unused_bytes)}{pull}, {share:.0f} % of the device code"


def _owners(title: str, owners: Sequence[OwnerRow], found: Contents, limit: int | None) -> Iterator[str]:
    with_device = any(row.architectures for row in owners)
    heads = (title, "pull", "disk", "files", *(("device", "unused") if with_device and found.targets else ()))
    rows = []
    for row in owners[:limit]:
        device = sum(row.architectures.values())
        cells = [
            visible(f"{row.name} {row.version}".rstrip()),
            _size(row.pull_bytes),
            _size(row.disk_bytes),
            _count(row.files),
        ]
        if len(heads) > len(cells):
            cells += [format_bytes(count) if count else "" for count in (device, row.unused_bytes)]
        rows.append(tuple(cells))
    yield ""
    yield from _table(heads, rows)
    rest = owners[len(rows) :]
    if rest:
        yield f"... and {len(rest):,} more ({format_bytes(sum(row.disk_bytes for row in rest))})"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns: the first to the left and as wide as its names, sizes and counts to the right, the last as it is."""
    widths = [max(len(row[place]) for row in (heads, *rows)) for place in range(len(heads))]
    right = {place for place, head in enumerate(heads) if head in ("pull", "disk", "files", "device", "unused")}
    for row in (heads, *rows):
        yield "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )


def _cut(text: str) -> str:
    shown = visible(text)
    return shown if len(shown) <= NAME_CHARS else f"{shown[: NAME_CHARS - 3]}..."


def _size(count: int | None) -> str:
    return "-" if count is None else format_bytes(count)


def _count(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"
