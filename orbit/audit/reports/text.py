"""An audit report as text for people: grouped by cause, the worst first, ending with what to do and one summary line.

Plain ASCII lines that read the same on a terminal, in a log file and in a mail. Paths and names are never cut inside a
finding, so that they can be copied; only the coverage table shortens names when a width is given.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from orbit.audit.reports.report import AuditReport, LibraryCoverage, TargetCoverage, TargetReport
from orbit.audit.reports.view import Cause, actions, causes, coverage_state, plural, tally, visible
from orbit.core.amounts import format_bytes

LOG_WIDTH = 120
MIN_WIDTH = 40
SUBJECTS, CAUSES, ACTIONS, ROWS, VALUE = 8, 6, 7, 12, 240
"""How many subjects of a cause, causes of a rule, actions and coverage rows are shown, and characters of a value."""
CODES = {"error": "1;31", "warning": "1;33", "note": "1;36", "waived": "2", "ok": "32", "bold": "1", "dim": "2"}
NOUNS = {
    "files": "file", "links": "link", "distributions": "distribution", "shared_objects": "shared object",
    "containers": "container", "packages": "package", "wheels": "wheel", "layers": "layer",
}  # fmt: skip
SAID_ELSEWHERE = {"bytes", "files_with_device_code", "images", "versioned_imports", "links"} | {
    "verified_files", "verified_bytes", "remembered_digests"
}  # fmt: skip
LEGEND = {
    "bad": "!: a finding below",
    "declared": "(...): a declared exception",
    "waived": "(...)w: waived",
    "open": "?: not judged",
}


@dataclass(frozen=True, slots=True)
class Style:
    """How to write."""

    width: int
    """Columns for prose."""
    narrow: bool
    """The table may shorten names to fit the width."""
    color: bool
    verbose: bool

    def paint(self, text: str, code: str) -> str:
        """``text`` in the colour of ``code`` (a key of :data:`CODES`)."""
        return f"\x1b[{CODES[code]}m{text}\x1b[0m" if self.color and text else text

    def wrap(self, text: str, first: str, rest: str | None = None) -> list[str]:
        """``text`` as lines that begin with ``first``, then ``rest``; words are never broken."""
        return textwrap.wrap(
            visible(text),
            self.width,
            initial_indent=first,
            subsequent_indent=" " * len(first) if rest is None else rest,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [first.rstrip()]


def render_text(report: TargetReport, *, width: int | None = None, color: bool = False, verbose: bool = False) -> str:
    """The report of one target. ``width`` None (a log): prose at 120 columns, tables as wide as their names."""
    style = Style(max(width or LOG_WIDTH, MIN_WIDTH), width is not None, color, verbose)
    lines = [style.paint(f"audit of {visible(report.target)}", "bold")]
    lines += [f"{report.kind}, profile {visible(report.profile)}, judged for uid {report.uid}", ""]
    for part in (_coverage, _declared, _skipped, _findings, _looked_at, _what_to_do):
        block = list(part(report, style))
        lines += [*block, ""] if block else []
    lines.append(_verdict(report, style, after=": ") + f"; {report.seconds:.2f} s")
    return "\n".join(lines) + "\n"


def render_reports(report: AuditReport, *, width: int | None = None, color: bool = False, verbose: bool = False) -> str:
    """All targets of one call, one after the other; with several, a last line for each."""
    style = Style(max(width or LOG_WIDTH, MIN_WIDTH), width is not None, color, verbose)
    parts = [render_text(item, width=width, color=color, verbose=verbose) for item in report.reports]
    text = f"\n{'=' * style.width}\n\n".join(parts)
    if len(report.reports) + len(report.unread) < 2 and not report.unread:
        return text
    lines = [f"{_verdict(item, style, after='  ')}  {visible(item.target)}" for item in report.reports]
    for item in report.unread:
        lines += [style.paint("UNREAD", "error") + f"  {visible(item.what)}", *style.wrap(item.reason, " " * 8)]
    head = f"\n{'=' * style.width}\n\n" if parts else ""
    return text + head + "\n".join(lines) + "\n"


def _verdict(report: TargetReport, style: Style, *, after: str) -> str:
    counts = tally(report)
    words = [plural(counts["error"], "error")]
    words += [plural(counts[name], name) for name in ("warning", "note") if counts[name]]
    words += [f"{counts['waived']} waived"] if counts["waived"] else []
    words += [plural(counts["declared"], "declared exception")] if counts["declared"] else []
    word = style.paint("FAILED", "error") if report.failed else style.paint("clean", "ok")
    padding = " " if after.isspace() and not report.failed else ""
    return f"{word}{padding}{after}{', '.join(words)}"


# --- device code ------------------------------------------------------------------------------------------------------


def _coverage(report: TargetReport, style: Style) -> Iterator[str]:
    if not report.coverage:
        if "containers" in report.facts:
            yield "no device code"
        return
    states = {item.file: [coverage_state(report, item, target) for target in item.targets] for item in report.coverage}
    ranks = {"bad": 0, "open": 1, "waived": 2, "declared": 2, "ok": 3}
    ordered = sorted(
        report.coverage, key=lambda item: (min((ranks[s] for s in states[item.file]), default=3), -item.payload_bytes)
    )
    bad = sum(any(ranks[state] < 2 for state in found) for found in states.values())
    shown = ordered if style.verbose else ordered[: max(ROWS, min(bad, 2 * ROWS))]
    yield from _table(report, style, shown, states)
    if len(shown) < len(ordered):
        rest = ordered[len(shown) :]
        total = format_bytes(sum(item.payload_bytes for item in rest))
        gaps = sum(any(state != "ok" for state in states[item.file]) for item in rest)
        how = f"{gaps} with a gap" if gaps else "all covered"
        yield f"... and {plural(len(rest), 'file')} more ({total}), {how}; --verbose lists them"
    marks = {state for found in states.values() for state in found}
    notes = ["ok: machine code for that target", *(text for state, text in LEGEND.items() if state in marks)]
    if any(item.mode == "dispatching" for item in shown):
        notes.append("*: picks its container by device, so the file as a whole must have it, else every container")
    yield from style.wrap("; ".join(notes), "")


def _table(
    report: TargetReport, style: Style, shown: Sequence[LibraryCoverage], states: dict[str, list[str]]
) -> Iterator[str]:
    names = [visible(target.target) for target in report.coverage[0].targets]
    rows = []
    for item in shown:
        cells = [_cell(item, target, state) for target, state in zip(item.targets, states[item.file], strict=True)]
        star = "*" if item.mode == "dispatching" else ""
        rows.append(
            (visible(item.file), f"{item.payload_bytes / 1e6:,.1f}", f"{item.containers:,}{star or ' '}", cells)
        )
    widths = [max(len(name), *(len(row[3][i]) for row in rows)) for i, name in enumerate(names)]
    numbers = [max(len(head), *(len(row[i + 1]) for row in rows)) for i, head in enumerate(("MB", "containers "))]
    room = style.width - sum(width + 2 for width in (*numbers, *widths))
    name_width = max(len("device code"), *(len(row[0]) for row in rows))
    if style.narrow:
        name_width = max(min(name_width, room), 20)
    heads = "".join(f"  {name:{width}}" for name, width in zip(names, widths, strict=True))
    yield style.paint(
        f"{'device code':{name_width}}  {'MB':>{numbers[0]}}  {'containers ':>{numbers[1]}}{heads}".rstrip(), "bold"
    )
    for item, (name, mb, containers, cells) in zip(shown, rows, strict=True):
        painted = [
            style.paint(f"{cell:{width}}", {"ok": "ok", "bad": "error", "open": "warning"}.get(state, "dim"))
            for cell, width, state in zip(cells, widths, states[item.file], strict=True)
        ]
        line = f"{_short(name, name_width):{name_width}}  {mb:>{numbers[0]}}  {containers:>{numbers[1]}}"
        yield "  ".join((line, *painted)).rstrip()


def _cell(item: LibraryCoverage, target: TargetCoverage, state: str) -> str:
    if state == "ok":
        return "ok"
    counts = (("ptx", target.ptx_jit), ("none", target.none))
    text = " ".join(f"{count:,} {name}" for name, count in counts if count)
    if item.mode == "dispatching":
        text = {"ptx-jit": "ptx only"}.get(item.result(target), "none")
    return {"bad": f"! {text}", "open": f"? {text}", "waived": f"({text})w"}.get(state, f"({text})")


def _short(name: str, width: int) -> str:
    """A path that keeps its beginning and, more of it, its end."""
    if len(name) <= width:
        return name
    end = (width - 3) * 2 // 3
    return f"{name[: width - 3 - end]}...{name[-end:]}"


# --- what is accepted, what was not looked at -------------------------------------------------------------------------


def _declared(report: TargetReport, style: Style) -> Iterator[str]:
    if report.expected:
        more = "" if style.verbose else "; --verbose lists them with their reasons"
        yield from style.wrap(f"{plural(len(report.expected), 'declared exception')} true of it{more}", "", "  ")
    for item in report.expected if style.verbose else ():
        yield from style.wrap(f"{item.subject}: {item.what}", "  ", "      ")
        yield from style.wrap(item.reason, "      ")


def _skipped(report: TargetReport, style: Style) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for item in report.skipped:
        reason = f"{item.reason} ({item.estimate})" if item.estimate else item.reason
        by_reason.setdefault(reason, []).append(item.what)
    for reason, what in by_reason.items():
        yield from style.wrap(f"{', '.join(what)} - {reason}", "not looked at: ", "  ")


# --- findings ---------------------------------------------------------------------------------------------------------


def _findings(report: TargetReport, style: Style) -> Iterator[str]:
    found = causes(report)
    shown = found if style.verbose else [cause for cause in found if not cause.waived]
    for _key, group in groupby(shown, key=lambda cause: (cause.mark, cause.rule)):
        yield from _rule(list(group), style)
    waived = Counter(
        finding.rule for cause in found if cause.waived and not style.verbose for finding in cause.findings
    )
    if waived:
        listed = ", ".join(f"{rule} ({count})" for rule, count in waived.items())
        yield from style.wrap(f"waived: {listed}; --verbose lists them with reason and expiry", "", "  ")


def _rule(group: Sequence[Cause], style: Style) -> Iterator[str]:
    """All causes of one rule and one weight, each fix once after what it settles."""
    first = group[0]
    total = sum(len(cause.findings) for cause in group)
    count = f" ({total:,})" if total > 1 else ""
    yield f"{style.paint(first.mark.upper(), first.mark)} {style.paint(visible(first.rule), 'bold')}{count}"
    if first.title:
        yield from (style.paint(line, "dim") for line in style.wrap(first.title, "  wanted: ", "          "))
    shown = group if style.verbose else group[:CAUSES]
    for fix, same_fix in groupby(shown, key=lambda cause: cause.fix):
        for cause in same_fix:
            yield from _cause(cause, style)
        if fix:
            yield from style.wrap(fix, "  fix: ")
    if len(shown) < len(group):
        left = sum(len(cause.findings) for cause in group[len(shown) :])
        yield f"  ... and {plural(left, 'finding')} more of this rule; --verbose lists them"
    yield style.paint(f"  more: orbit audit explain {visible(first.rule)}", "dim")
    yield ""


def _cause(cause: Cause, style: Style) -> Iterator[str]:
    shown = cause.findings if style.verbose else cause.findings[:SUBJECTS]
    if len(cause.findings) == 1:
        yield from style.wrap(f"{cause.findings[0].subject}: {cause.findings[0].message}", "  ", "    ")
    elif cause.message:
        yield from style.wrap(cause.message, "  ")
        yield from (f"    {visible(finding.subject)}" for finding in shown)
    else:
        for finding in shown:
            yield from style.wrap(f"{finding.subject}: {finding.message}", "  ", "    ")
    if len(shown) < len(cause.findings):
        yield f"    ... and {len(cause.findings) - len(shown):,} more"
    yield from _evidence(cause, style)
    for reason in dict.fromkeys(finding.waiver for finding in cause.findings if finding.waiver):
        yield from style.wrap(reason, "  waiver: ", "    ")


def _evidence(cause: Cause, style: Style) -> Iterator[str]:
    """What was seen: of every finding with ``--verbose``, else of the first."""
    several = len(cause.findings) > 1
    for finding in cause.findings if style.verbose else cause.findings[:1]:
        values = {key: value for key, value in finding.evidence.items() if value}
        if values and several:
            yield f"    seen in {visible(finding.subject)}:"
        for key, value in values.items():
            yield from style.wrap(f"{key}: {_bounded(value, style)}", "      ", "        ")


def _bounded(value: str, style: Style) -> str:
    return value if style.verbose or len(value) <= VALUE else f"{value[:VALUE]} ... ({len(value) - VALUE:,} more)"


# --- the end ----------------------------------------------------------------------------------------------------------


def _looked_at(report: TargetReport, style: Style) -> Iterator[str]:
    facts = report.facts
    parts = []
    order = [*NOUNS, *(key for key in facts if key not in NOUNS)]
    for key, count in ((key, facts[key]) for key in order if key in facts):
        if key not in SAID_ELSEWHERE and count:
            parts.append(plural(count, NOUNS.get(key, key.replace("_", " ").removesuffix("s"))))
            if key == "files" and "bytes" in facts:
                parts[-1] += f" ({format_bytes(facts['bytes'])})"
            if key == "containers":
                parts[-1] += f" of device code in {plural(facts.get('files_with_device_code', 0), 'file')}"
    if facts.get("verified_files"):
        parts.append(
            f"{plural(facts['verified_files'], 'file')} ({format_bytes(facts['verified_bytes'])}) compared with RECORD"
        )
    if parts:
        yield from style.wrap(", ".join(parts), "looked at ", "  ")
    if facts.get("remembered_digests"):
        yield from style.wrap(
            f"{plural(facts['remembered_digests'], 'digest')} remembered from the last audit (files unchanged since); "
            "--hash reads every file",
            "",
            "  ",
        )
    if report.driver_libraries:
        listed = ", ".join(f"{name} ({count})" for name, count in report.driver_libraries.items())
        yield from style.wrap(f"the host's GPU driver must bring (files that need it): {listed}", "", "  ")


def _what_to_do(report: TargetReport, style: Style) -> Iterator[str]:
    todo = actions(report, every=style.verbose)
    if not todo:
        return
    yield style.paint("What to do", "bold")
    shown = todo if style.verbose else todo[:ACTIONS]
    for number, action in enumerate(shown, 1):
        first = f"{number:>3}. "
        indent = " " * len(first)
        yield from style.wrap(action.fix, first)
        about = f"{action.severity} {action.rule}: {action.about}"
        yield from (style.paint(line, "dim") for line in style.wrap(about, indent, f"{indent}  "))
    if len(shown) < len(todo):
        yield f"     ... and {len(todo) - len(shown):,} more; --verbose lists them"
