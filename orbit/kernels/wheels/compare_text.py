"""A comparison of two wheels as text for people."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.audit.reports.text import LOG_WIDTH, MIN_WIDTH, Style
from orbit.audit.reports.view import plural, visible
from orbit.core.amounts import format_bytes
from orbit.kernels.wheels.binaries import ImageDifference, SectionDifference
from orbit.kernels.wheels.causes import CAUSES, REAL
from orbit.kernels.wheels.compare import Comparison, MemberDifference, by_cause

MEMBERS, SECTIONS, NAMES = 8, 6, 5
"""How many members, sections of a file and names are shown; all with ``verbose``."""


def render_comparison(
    found: Comparison, *, width: int | None = None, color: bool = False, verbose: bool = False
) -> str:
    """The verdict, each cause with the members it is seen in, then the members one by one."""
    style = Style(max(width or LOG_WIDTH, MIN_WIDTH), width is not None, color, verbose)
    lines = [f"left   {visible(found.left)}  sha256 {found.left_sha256}"]
    lines += [f"right  {visible(found.right)}  sha256 {found.right_sha256}", ""]
    if found.identical:
        lines.append(style.paint("equal", "ok") + f" to the byte, {plural(found.equal, 'member')}")
        return "\n".join(lines) + "\n"
    for cause, members in by_cause(found).items():
        mark = style.paint(cause, "error" if cause in REAL else "note")
        seen = f" ({plural(len(members), 'member')})" if members else ""
        lines += [f"{mark}{seen}: {CAUSES[cause]}"]
    lines.append("")
    shown = found.members if verbose else found.members[:MEMBERS]
    for member in shown:
        lines += _member(member, style)
    if len(shown) < len(found.members):
        lines += [f"... and {plural(len(found.members) - len(shown), 'member')} more; --verbose lists them", ""]
    lines.append(_verdict(found, style))
    return "\n".join(lines) + "\n"


def _verdict(found: Comparison, style: Style) -> str:
    counts = f"{plural(found.equal, 'member')} equal, {len(found.members)} not"
    if not found.reproduced:
        return style.paint("DIFFERENT", "error") + f": {counts}; {', '.join(c for c in found.causes if c in REAL)}"
    return style.paint("same result, other bytes", "warning") + f": {counts}; only circumstances of the build differ"


def _member(member: MemberDifference, style: Style) -> Iterator[str]:
    left, right = (
        format_bytes(count) if count is not None else "none" for count in (member.left_bytes, member.right_bytes)
    )
    sizes = left if left == right else f"{left} -> {right}"
    yield f"{style.paint(visible(member.name), 'bold')}  {sizes}  {', '.join(member.causes)}"
    for mark, lines in (("-", member.lines_left), ("+", member.lines_right)):
        yield from (f"  {mark} {visible(line)}" for line in _some(lines, style))
    if member.binary is None:
        yield ""
        return
    yield from _sections(member.binary.sections, style, "  ")
    for image in member.binary.images if style.verbose else member.binary.images[:SECTIONS]:
        yield from _image(image, style)
    if not style.verbose and len(member.binary.images) > SECTIONS:
        yield f"  ... and {plural(len(member.binary.images) - SECTIONS, 'image')} more"
    for cause, (one, two) in sorted(member.binary.texts.items()):
        yield f"  {cause}:"
        yield f"    - {visible(one)}"
        yield f"    + {visible(two)}"
    for what, word in (("symbols", "name"), ("paths", "path")):
        for mark, side in (("-", "left"), ("+", "right")):
            names = getattr(member.binary, f"{what}_{side}")
            yield from (f"  {word} {mark} {visible(name)}" for name in _some(names, style))
    yield ""


def _sections(sections: tuple[SectionDifference, ...], style: Style, indent: str) -> Iterator[str]:
    ordered = sorted(sections, key=lambda item: (REAL.isdisjoint(item.causes), item.name))
    shown = ordered if style.verbose else ordered[:SECTIONS]
    for item in shown:
        grown = "" if item.left_bytes == item.right_bytes else f" -> {item.right_bytes:,}"
        causes = ", ".join(item.causes) or "see its images"
        yield (
            f"{indent}{visible(item.name)}: {item.differing_bytes:,} of {item.left_bytes:,}{grown} bytes differ, "
            f"the first at {item.first:,}: {causes}"
        )
    if len(shown) < len(ordered):
        yield f"{indent}... and {plural(len(ordered) - len(shown), 'section')} more"


def _image(image: ImageDifference, style: Style) -> Iterator[str]:
    yield f"  {image.section}[{image.container}] {image.arch}: {', '.join(image.causes)}"
    yield from (f"    kernel {visible(name)}" for name in _some(image.kernels, style))
    yield from _sections(image.sections, style, "    ")


def _some(names: tuple[str, ...], style: Style) -> tuple[str, ...]:
    if style.verbose or len(names) <= NAMES:
        return names
    return (*names[:NAMES], f"... and {len(names) - NAMES} more")
