"""The answer for people: what follows first, the heaviest first; then every package. As text and as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from orbit.core.amounts import format_bytes
from orbit.profile.diff.records import Change, Consequence, LockDiff, Side

WIDTH = 110
HEADINGS = {
    "stops": "STOPS until somebody has acted",
    "rebuild": "REBUILD: the pipeline does it",
    "check": "CHECK before a long run",
    "note": "NOTE",
}
SIGNS = {"added": "+", "removed": "-", "renamed": "=", "moved": "~", "replaced": "!"}
"""One character for each kind of change."""
WORDS = {"added": "new", "removed": "gone", "renamed": "under another name", "moved": "moved", "replaced": "replaced"}


def render(diff: LockDiff) -> str:
    """Plain text."""
    return "\n".join(_lines(diff)) + "\n"


def _lines(diff: LockDiff) -> Iterator[str]:
    yield f"A  {_side(diff.a)}"
    yield f"B  {_side(diff.b)}"
    if diff.equal:
        yield f"equal: the same {diff.unchanged} packages, the same files, nothing else differs"
        return
    yield _summary(diff)
    weight = ""
    for each in diff.consequences:
        if each.weight != weight:
            weight = each.weight
            yield from ("", HEADINGS[weight])
        yield from _consequence(diff, each)
    if diff.changes:
        yield from ("", "PACKAGES  (+ new, - gone, = other name, ~ other version, ! other bytes)")
        yield from _table(diff.changes)


def _side(side: Side) -> str:
    said = [f"lock {side.lock_sha256[:12]}", f"{side.packages} packages", format_bytes(side.download_bytes)]
    if side.cuda:
        said.append(f"CUDA {side.cuda}")
    said.append(" + ".join(target.partition(" ")[0] for target in side.targets))
    return f"{side.label}: {', '.join(part for part in said if part)}"


def _summary(diff: LockDiff) -> str:
    counts = [(kind, sum(change.kind == kind for change in diff.changes)) for kind in SIGNS]
    return "; ".join([*(f"{count} {WORDS[kind]}" for kind, count in counts if count), f"{diff.unchanged} unchanged"])


def _consequence(diff: LockDiff, each: Consequence) -> Iterator[str]:
    yield f"  {each.title}"
    for line in each.lines:
        yield from _folded(line, "    ")
    sentences = _sentences(diff, each)
    if sentences:
        yield from _folded("; ".join(sentences), "    ")
    yield from _folded(f"-> {each.action}", "    ", hanging=3)


def _sentences(diff: LockDiff, each: Consequence) -> list[str]:
    wanted = set(each.packages)
    return [change.sentence for change in diff.changes if change.name in wanted]


def _folded(text: str, indent: str, hanging: int = 2) -> list[str]:
    return textwrap.wrap(
        text,
        width=WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + " " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _table(changes: Sequence[Change]) -> Iterator[str]:
    rows = [(SIGNS[c.kind], _name(c), c.old or "-", c.new or "-", _sizes(c), _notes(c)) for c in changes]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:5], widths, strict=True)]
        yield "  ".join([*cells, row[5]]).rstrip()


def _name(change: Change) -> str:
    return f"{change.was} -> {change.name}" if change.was else change.name


def _sizes(change: Change) -> str:
    sides = ((change.old, change.old_bytes), (change.new, change.new_bytes))
    return " -> ".join(format_bytes(count) if there else "-" for there, count in sides)


def _notes(change: Change) -> str:
    return ", ".join([*change.consequences, *(() if change.installed else ("build only",))])


def render_markdown(diff: LockDiff) -> str:
    """For a pull request: what follows as a list, the packages folded."""
    return "\n".join(_markdown(diff)) + "\n"


def _markdown(diff: LockDiff) -> Iterator[str]:
    yield from (f"### Lock: {diff.a.label} -> {diff.b.label}", "")
    if diff.equal:
        yield f"Equal: the same {diff.unchanged} packages, the same files."
        return
    yield from (f"{_summary(diff)}.", "", "| | A | B |", "|---|---|---|")
    for name, one, other in _facts(diff):
        yield f"| {name} | {one} | {other} |"
    weight = ""
    for each in diff.consequences:
        if each.weight != weight:
            weight = each.weight
            yield from ("", f"**{HEADINGS[weight]}**", "")
        yield f"- **{each.title}.** {each.action}"
        yield from (f"  - {line}" for line in each.lines)
        sentences = _sentences(diff, each)
        if sentences:
            yield f"  - {'; '.join(sentences)}"
    yield from ("", f"<details><summary>All {len(diff.changes)} packages</summary>", "")
    yield from ("| package | A | B | follows |", "|---|---|---|---|")
    for change in diff.changes:
        yield f"| {_name(change)} | {change.old or '-'} | {change.new or '-'} | {_notes(change)} |"
    yield from ("", "</details>")


def _facts(diff: LockDiff) -> Iterator[tuple[str, str, str]]:
    for name, get in (
        ("lock", lambda side: side.lock_sha256[:12]),
        ("CUDA", lambda side: side.cuda),
        ("targets", lambda side: ", ".join(side.targets)),
        ("packages", lambda side: str(side.packages)),
        ("download", lambda side: format_bytes(side.download_bytes)),
    ):
        yield name, get(diff.a), get(diff.b)
