"""The parts of the page that say what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from orbit.audit.reports.explain import rule_page
from orbit.audit.reports.formats.markup import Html, el, fold, join
from orbit.audit.reports.report import TargetReport
from orbit.audit.reports.view import Cause, actions, causes, plural
from orbit.core.findings import Finding

SHOWN, LISTED, EVIDENCE = 6, 500, 60
"""Subjects of a cause that are seen at once, subjects in the page at all, findings whose evidence is in the page."""
VALUE = 4000
"""Characters of one evidence value."""


def what_to_do(report: TargetReport, number: int) -> tuple[Html, str]:
    """A numbered list, most important first; (markup, note for the heading)."""
    todo = actions(report)
    rows = []
    for action in todo:
        first, rest = action.subjects[0], action.about.removeprefix(action.subjects[0])
        about = el(
            "p",
            el("span", action.severity.value, cls=f"chip {action.severity}"),
            el("a", action.rule, href=f"#t{number}-{anchor(action.severity.value, action.rule)}", cls="rule"),
            el("span", first, cls="path"),
            el("span", rest),
            cls="about",
        )
        rows.append(el("li", el("p", action.fix), about))
    if not rows:
        return Html(""), ""
    return el("ol", *rows, cls="card todo"), ""


def findings(report: TargetReport, number: int) -> tuple[Html, str]:
    """All findings by rule and cause; what is waived is folded at the end."""
    found = causes(report)
    groups = [list(group) for _key, group in groupby(found, key=lambda cause: (cause.mark, cause.rule))]
    cards = [_rule(group, number) for group in groups if not group[0].waived]
    waived = [_rule(group, number) for group in groups if group[0].waived]
    if waived:
        count = sum(len(cause.findings) for cause in found if cause.waived)
        cards.append(fold(f"{plural(count, 'waived finding')}", *waived, cls="waived"))
    return join(cards), f"{len(report.findings):,}" if report.findings else ""


def anchor(mark: str, rule: str) -> str:
    """The id of a rule's card, without the target's number."""
    return f"{mark}-{rule}"


def _rule(group: Sequence[Cause], number: int) -> Html:
    first = group[0]
    total = sum(len(cause.findings) for cause in group)
    head = el(
        "h3",
        el("span", first.mark, cls=f"chip {first.mark}"),
        el("span", first.rule, cls="rule"),
        el("span", f"{total:,}", cls="count") if total > 1 else Html(""),
    )
    parts: list[Html] = [head]
    if first.title:
        parts.append(el("p", el("span", "Wanted: ", cls="label"), first.title, cls="muted"))
    for fix, same in groupby(group, key=lambda cause: cause.fix):
        parts += [_cause(cause) for cause in same]
        if fix:
            parts.append(el("p", el("span", "Fix: ", cls="label"), fix, cls="fix"))
    parts.append(_about(first.rule))
    return el("div", *parts, cls=f"card cause {first.mark}", id=f"t{number}-{anchor(first.mark, first.rule)}")


def _about(rule: str) -> Html:
    page = rule_page(rule)
    command = el("code", f"orbit audit explain {rule}")
    if not page:
        return el("p", command, cls="muted")
    return fold(join(("About this rule ", command)), el("pre", page.strip(), cls="page"), cls="rulepage")


def _cause(cause: Cause) -> Html:
    parts: list[Html] = []
    if len(cause.findings) == 1:
        only = cause.findings[0]
        parts.append(el("p", el("span", only.subject, cls="path"), " ", only.message))
    elif cause.message:
        parts += [el("p", cause.message), *_subjects(cause.findings, with_message=False)]
    else:
        parts += _subjects(cause.findings, with_message=True)
    for reason in dict.fromkeys(finding.waiver for finding in cause.findings if finding.waiver):
        parts.append(el("p", el("span", "Waived: ", cls="label"), reason))
    evidence = list(_evidence(cause.findings))
    if evidence:
        parts.append(fold("Evidence", *evidence, cls="evidence"))
    return el("div", *parts, cls="one")


def _subjects(found: Sequence[Finding], *, with_message: bool) -> Iterator[Html]:
    rows = [
        el("li", el("span", finding.subject, cls="path"), *([" ", finding.message] if with_message else []))
        for finding in found[:LISTED]
    ]
    yield el("ul", *rows[:SHOWN], cls="subjects")
    if len(rows) > SHOWN:
        rest = rows[SHOWN:]
        if len(found) > LISTED:
            rest.append(el("li", f"... and {len(found) - LISTED:,} more in the JSON report"))
        yield fold(f"{len(found) - SHOWN:,} more", el("ul", *rest, cls="subjects"))


def _evidence(found: Sequence[Finding]) -> Iterator[Html]:
    several = len(found) > 1
    for finding in found[:EVIDENCE]:
        values = {key: value for key, value in finding.evidence.items() if value}
        if not values:
            continue
        if several:
            yield el("p", finding.subject, cls="path")
        cells = [part for key, value in values.items() for part in (el("dt", key), el("dd", _bounded(value)))]
        yield el("dl", *cells)
    if len(found) > EVIDENCE:
        yield el("p", f"... of {len(found) - EVIDENCE:,} more in the JSON report", cls="muted")


def _bounded(value: str) -> str:
    return value if len(value) <= VALUE else f"{value[:VALUE]} ... ({len(value) - VALUE:,} more)"
