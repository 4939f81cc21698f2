"""A description of a wheel as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orbit.audit.reports.text import LOG_WIDTH, MIN_WIDTH, Style
from orbit.audit.reports.view import plural, visible
from orbit.core.amounts import format_bytes
from orbit.kernels.wheels.describe import BinaryRow, Description, ManifestState

ROWS, NEEDS = 12, 10
"""Files, and needed libraries of a file, that are shown; all with ``verbose``."""
SOURCES = {
    "driver": "driver", "loader": "its own", "preloaded": "its own", "ambiguous": "its own", "outside": "other wheels",
    "missing": "not in it",
}  # fmt: skip
"""Where a needed library comes from; those of the base system need no word."""


def render_description(
    found: Description, *, width: int | None = None, color: bool = False, verbose: bool = False
) -> str:
    """What a person wants to know first, then device code, files, kernels and instructions, then what is wrong."""
    style = Style(max(width or LOG_WIDTH, MIN_WIDTH), width is not None, color, verbose)
    blocks = (_head, _device_code, _files, _kernels, _instructions, _wrong)
    parts = ["\n".join(lines) for block in blocks if (lines := list(block(found, style)))]
    return "\n\n".join(parts) + "\n"


def _head(found: Description, style: Style) -> Iterator[str]:
    yield style.paint(visible(f"{found.name} {found.version}"), "bold")
    yield f"  file       {visible(found.wheel)}"
    yield f"  sha256     {found.sha256}"
    unpacked = format_bytes(found.unpacked_bytes)
    yield f"  size       {format_bytes(found.size_bytes)}, {plural(found.files, 'file')} of {unpacked}"
    yield from style.wrap(", ".join(found.tags) or "none", "  tags       ")
    if found.fits:
        why = f": {', '.join(found.decides)}" if found.decides else ""
        yield from style.wrap(f"{found.fits}{why}", "  fits       ")
    if found.manifest is None:
        yield "  manifest   none beside it"
    else:
        yield from _manifest(found.manifest, style)
    for item in found.skipped if style.verbose else ():
        yield from style.wrap(f"{item.what}: {item.reason}", "  skipped    ")


def _manifest(state: ManifestState, style: Style) -> Iterator[str]:
    word = style.paint("agrees", "ok") if state.agrees else style.paint("DIFFERS", "error")
    yield f"  manifest   {word}, recipe {visible(state.recipe)}, {plural(state.units, 'translation unit')}"
    for name, archs in (("requested", state.requested), ("compiled", state.compiled), ("found", state.found)):
        yield f"    {name:9}  {', '.join(archs) or 'nothing'}"
    for text in state.differences:
        yield from style.wrap(text, "    ! ", "      ")


def _device_code(found: Description, style: Style) -> Iterator[str]:
    if not found.archs:
        yield "no device code"
        return
    total = sum(item.stored_bytes for item in found.archs)
    rows = [("device code", "images", "in the file", "unpacked", "share")]
    rows += [
        (
            item.arch,
            f"{item.images:,}",
            format_bytes(item.stored_bytes),
            format_bytes(item.unpacked_bytes),
            f"{100 * item.stored_bytes / total:.0f} %" if total else "",
        )
        for item in found.archs
    ]
    yield from _table(rows, style)
    compiled = [item.arch for item in found.archs if not item.arch.startswith("sm_")]
    yield f"{plural(found.units, 'translation unit')}; PTX: {', '.join(compiled) or 'none'}"


def _table(rows: Sequence[Sequence[str]], style: Style) -> Iterator[str]:
    """Rows with the first column to the left, the others to the right; the first row is the head."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = [
            f"{row[0]:{widths[0]}}",
            *(f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)),
        ]
        line = "  ".join(cells).rstrip()
        yield style.paint(line, "bold") if number == 0 else line


def _files(found: Description, style: Style) -> Iterator[str]:
    ordered = sorted(found.binaries, key=lambda item: -item.size_bytes)
    shown = ordered if style.verbose else ordered[:ROWS]
    for item in shown:
        yield from _file(item, style)
    if len(shown) < len(ordered):
        yield f"... and {plural(len(ordered) - len(shown), 'binary').replace('binarys', 'binaries')} more; --verbose"


def _file(item: BinaryRow, style: Style) -> Iterator[str]:
    glibc = f", glibc {item.glibc}" if item.glibc else ""
    yield f"{style.paint(visible(item.file), 'bold')}  {format_bytes(item.size_bytes)}{glibc}"
    if item.archs:
        empty = f" (and {item.empty_units} without code)" if item.empty_units else ""
        archs = ", ".join(f"{part.arch} {part.images}" for part in item.archs)
        yield from style.wrap(f"{plural(item.units, 'unit')}{empty}: {archs}", "  device   ")
    for source in dict.fromkeys(SOURCES.values()):
        names = sorted(name for name, how in item.needed.items() if SOURCES.get(how) == source)
        rest = f", and {len(names) - NEEDS} more" if len(names) > NEEDS and not style.verbose else ""
        listed = ", ".join(names if style.verbose else names[:NEEDS])
        yield from style.wrap(f"{listed}{rest} ({source})", "  needs    ") if names else ()
    if item.run_paths:
        yield from style.wrap(":".join(item.run_paths), "  runpath  ")


def _kernels(found: Description, style: Style) -> Iterator[str]:
    if not found.kernels:
        return
    names = [target.target for target in found.kernels[0].targets]
    rows = [("kernels", "all", *(f"{name}: here, empty, absent" for name in names))]
    rows += [
        (
            visible(item.file),
            f"{item.kernels:,}",
            *(f"{part.kernels - part.stubs:,}, {part.stubs:,}, {part.missing:,}" for part in item.targets),
        )
        for item in found.kernels
    ]
    yield from _table(rows, style)


def _instructions(found: Description, style: Style) -> Iterator[str]:
    if not found.instructions:
        return
    names = sorted({name for row in found.instructions for name in row.families})
    rows = [("instructions", "images", "all", *names)]
    for item in found.instructions:
        counts = [
            f"{item.families[name]:,} in {item.images_with[name]:,}" if name in item.families else "-" for name in names
        ]
        rows.append((f"{visible(item.file)} {item.arch}", f"{item.images:,}", f"{item.instructions:,}", *counts))
    yield from _table(rows, style)
    checked = sum(item.checked for item in found.instructions)
    yield f"instructions of each family, and in how many images; nvdisasm counts the same in {plural(checked, 'image')}"
    for item in found.instructions:
        yield from (line for text in item.problems for line in style.wrap(f"{item.file} {item.arch}: {text}", "  ! "))


def _wrong(found: Description, style: Style) -> Iterator[str]:
    for item in found.findings:
        mark = "waived" if item.waiver else item.severity.value
        yield from style.wrap(f"{item.rule}: {item.message}", f"{style.paint(mark.upper(), mark)} ", "  ")
        for key, value in item.evidence.items():
            yield from style.wrap(f"{key}: {value}", "    ", "      ") if value else ()
    if not found.findings:
        yield style.paint("nothing wrong", "ok") + " with the archive, its tags, its binaries"
