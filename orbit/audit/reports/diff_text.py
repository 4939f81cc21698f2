"""The difference of two reports as text: what got worse, what is fixed, then what moved underneath."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from orbit.audit.reports.diff import RANK, Change, CoverageChange, LoaderChange, NumberChange, ReportDiff
from orbit.audit.reports.report import LibraryCoverage, LoaderRow
from orbit.audit.reports.text import LOG_WIDTH, MIN_WIDTH, Style
from orbit.audit.reports.view import plural, visible
from orbit.core.amounts import format_bytes
from orbit.core.findings import Finding

SHOWN = 12
"""Lines of one section without ``verbose``."""


def render_diff(diff: ReportDiff, *, width: int | None = None, color: bool = False, verbose: bool = False) -> str:
    """The difference for people. ``width`` None (a log): prose at 120 columns."""
    style = Style(max(width or LOG_WIDTH, MIN_WIDTH), width is not None, color, verbose)
    lines = [style.paint(f"from {visible(diff.a)}", "bold"), style.paint(f"to   {visible(diff.b)}", "bold"), ""]
    parts: tuple[tuple[str, list[str]], ...] = (
        ("new findings", list(_findings(diff.new, "+", style))),
        ("changed findings", list(_changed(diff, style))),
        ("fixed", list(_findings(diff.fixed, "-", style))),
        ("distributions", list(_changes(diff.distributions, style))),
        ("device code", list(_coverage(diff.coverage, style))),
        ("bytes by architecture", list(_numbers(diff.architectures, style, in_bytes=True))),
        ("kernels", list(_depth(diff, style))),
        ("libraries", list(_changes(diff.libraries, style))),
        ("what needed libraries become", list(_loader(diff.loader, style))),
        ("numbers", list(_numbers(diff.facts, style))),
    )
    for title, found in parts:
        if found:
            lines += [style.paint(title, "bold"), *found, ""]
    if diff.not_compared:
        listed = ", ".join(
            f"{rule} ({plural(count, 'finding')})" if count else rule for rule, count in diff.not_compared.items()
        )
        lines += [*style.wrap(f"judged on one side only, so not compared: {listed}", "", "  "), ""]
    return "\n".join([*lines, _summary(diff, style)]) + "\n"


def _summary(diff: ReportDiff, style: Style) -> str:
    if diff.same:
        return style.paint("no difference", "ok")
    fatal = sum(finding.fatal for finding in diff.new)
    words = [
        f"{plural(fatal, 'new error')}, {plural(len(diff.new) - fatal, 'other new finding')}",
        f"{len(diff.fixed)} fixed",
        f"{len(diff.changed)} changed",
        f"{plural(len(diff.distributions), 'distribution')} differ",
        f"{plural(len(diff.coverage), 'file')} with other device code",
    ]
    return f"{style.paint('WORSE', 'error') if diff.worse else style.paint('not worse', 'ok')}: {', '.join(words)}"


def _cut(lines: Sequence[str], style: Style) -> Iterator[str]:
    shown = lines if style.verbose else lines[:SHOWN]
    yield from shown
    if len(shown) < len(lines):
        yield f"  ... and {len(lines) - len(shown):,} more; --verbose lists them"


def _line(finding: Finding) -> str:
    mark = f"waived {finding.severity}" if finding.waiver else finding.severity.value
    return f"{mark} {finding.rule}: {finding.subject}: {finding.message}"


def _findings(found: Sequence[Finding], sign: str, style: Style) -> Iterator[str]:
    blocks = ["\n".join(style.wrap(_line(finding), f"  {sign} ", "      ")) for finding in found]
    yield from _cut(blocks, style)


def _changed(diff: ReportDiff, style: Style) -> Iterator[str]:
    blocks = []
    for pair in diff.changed:
        lines = [*style.wrap(_line(pair.before), "  - ", "      "), *style.wrap(_line(pair.after), "  + ", "      ")]
        if lines[: len(lines) // 2] == [line.replace("  + ", "  - ", 1) for line in lines[len(lines) // 2 :]]:
            keys = [
                key
                for key in dict.fromkeys((*pair.before.evidence, *pair.after.evidence))
                if pair.before.evidence.get(key) != pair.after.evidence.get(key)
            ]
            what = ", ".join(keys) or "fix or waiver"
            lines = style.wrap(f"{_line(pair.after)} (other {what})", "  ~ ", "      ")
        blocks.append("\n".join(lines))
    yield from _cut(blocks, style)


def _changes(changes: Sequence[Change], style: Style) -> Iterator[str]:
    lines = []
    for change in changes:
        if not change.before:
            lines.append(visible(f"  + {change.name} {change.after}"))
        elif not change.after:
            lines.append(visible(f"  - {change.name} {change.before}"))
        else:
            lines.append(visible(f"  ~ {change.name} {change.before} -> {change.after}"))
    yield from _cut(lines, style)


def _coverage(changes: Sequence[CoverageChange], style: Style) -> Iterator[str]:
    """The files whose result for a target changed come first."""
    blocks = []
    for change in sorted(changes, key=lambda item: -max((_step(result) for result in item.results), default=-9)):
        lines = style.wrap(_coverage_line(change), "  ", "      ")
        for result in change.results:
            text = f"      {visible(result.name)}: {result.before} -> {result.after}"
            lines.append(style.paint(text, "error" if _step(result) > 0 else "ok"))
        blocks.append("\n".join(lines))
    yield from _cut(blocks, style)


def _step(result: Change) -> int:
    return RANK[result.after] - RANK[result.before]


def _coverage_line(change: CoverageChange) -> str:
    old, now = change.before, change.after
    if old is None or now is None:
        side = now or old
        assert side is not None
        return f"{'+' if now else '-'} {change.file}: {_content(side)}"
    parts = []
    if old.containers != now.containers:
        parts.append(f"{old.containers:,} -> {now.containers:,} containers")
    if old.payload_bytes != now.payload_bytes:
        parts.append(f"{format_bytes(old.payload_bytes)} -> {format_bytes(now.payload_bytes)}")
    images = [
        f"{arch} {old.images.get(arch, 0):,} -> {now.images.get(arch, 0):,}"
        for arch in sorted({*old.images, *now.images})
        if old.images.get(arch) != now.images.get(arch)
    ]
    parts += [f"images: {', '.join(images)}"] if images else []
    parts += [f"mode {old.mode} -> {now.mode}"] if old.mode != now.mode else []
    return f"~ {change.file}: {'; '.join(parts) or 'other containers have it'}"


def _content(item: LibraryCoverage) -> str:
    images = ", ".join(f"{arch} {count:,}" for arch, count in item.images.items())
    return f"{plural(item.containers, 'container')}, {format_bytes(item.payload_bytes)}; images: {images}"


def _loader(changes: Sequence[LoaderChange], style: Style) -> Iterator[str]:
    """One line for all files of one change."""
    groups: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for change in changes:
        groups[change.soname, _becomes(change.before), _becomes(change.after)].append(change.file)
    blocks = []
    for (soname, before, after), files in sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
        text = f"{soname}: {before} -> {after} (for {files[0]}{more})"
        blocks.append("\n".join(style.wrap(text, "  ~ ", "      ")))
    yield from _cut(blocks, style)


def _becomes(row: LoaderRow | None) -> str:
    return "not needed" if row is None else f"{row.how} {row.path}".strip()


def _depth(diff: ReportDiff, style: Style) -> Iterator[str]:
    lines = []
    for change in diff.depth:
        sides = [
            "nothing" if side is None else f"{side.kernels:,} kernels, {side.stubs:,} stubs, {side.missing:,} missing"
            for side in (change.before, change.after)
        ]
        lines.append("\n".join(style.wrap(f"{change.file} on {change.target}: {' -> '.join(sides)}", "  ~ ", "      ")))
    yield from _cut(lines, style)


def _numbers(changes: Sequence[NumberChange], style: Style, *, in_bytes: bool = False) -> Iterator[str]:
    lines = []
    for change in changes:
        as_bytes = in_bytes or change.name.endswith("bytes")
        before, after = (format_bytes(n) if as_bytes else f"{n:,}" for n in (change.before, change.after))
        delta = change.after - change.before
        sign = "+" if delta > 0 else "-"
        step = f"{sign}{format_bytes(abs(delta)) if as_bytes else f'{abs(delta):,}'}"
        lines.append(f"  {visible(change.name.replace('_', ' '))}: {before} -> {after} ({step})")
    yield from _cut(lines, style)
