"""One self-contained HTML page for all targets of a call: no external resource, its own content security policy.

The verdict, what to do, the findings and every table but one are plain HTML: they stand in a viewer that runs no
scripts, and on paper. The script (page.js) adds filters and sorting and draws the loader table, which has thousands of
rows, from data in the page.
"""

from __future__ import annotations

from pathlib import Path

from orbit.audit.reports.formats.document import HOUSE_STYLE, asset, document
from orbit.audit.reports.formats.html_findings import findings, what_to_do
from orbit.audit.reports.formats.html_tables import coverage, depth, exceptions, libraries, loader, looked_at, sizes
from orbit.audit.reports.formats.markup import Html, bar, el, join
from orbit.audit.reports.report import AuditReport, TargetReport
from orbit.audit.reports.view import coverage_state, plural, tally
from orbit.core.amounts import format_bytes
from orbit.core.findings import Skipped

SCRIPT = Path(__file__).parent / "page.js"
SECTIONS = (
    ("todo", "What to do", what_to_do),
    ("findings", "Findings", findings),
    ("coverage", "Device code", coverage),
    ("sizes", "Size by architecture", sizes),
    ("loader", "What needed libraries become", loader),
    ("libraries", "Libraries", libraries),
    ("depth", "Kernels", depth),
    ("exceptions", "Declared exceptions", exceptions),
    ("facts", "What was looked at", looked_at),
)
"""(name, title, function of report and its number) in the order of the page; an empty one is left out."""


def to_html(report: AuditReport) -> bytes:
    """The page, UTF-8."""
    targets = [_target(item, number) for number, item in enumerate(report.reports)]
    several = len(report.reports) > 1
    body = join(
        (
            _top(report),
            *([_tabs(report)] if several else []),
            el("main", *(_unread(item) for item in report.unread), *targets),
        ),
        "\n",
    )
    return document(f"orbit audit: {_verdict(report)}", body, style=asset(HOUSE_STYLE), script=asset(SCRIPT))


def _verdict(report: AuditReport) -> str:
    failed = sum(item.failed for item in report.reports) + len(report.unread)
    total = len(report.reports) + len(report.unread)
    if total == 1 and report.reports:
        return f"{'FAILED' if failed else 'clean'} - {report.reports[0].target}"
    return f"{failed} of {plural(total, 'target')} failed" if failed else f"{plural(total, 'target')} clean"


def _top(report: AuditReport) -> Html:
    several = len(report.reports) + len(report.unread) > 1
    words: list[str | Html] = [el("span", "orbit", cls="brand"), el("span", "audit", cls="product")]
    if several:
        words.append(el("span", _verdict(report), cls=f"badge {'bad' if report.failed else 'ok'}"))
    words.append(el("span", f"orbit {report.orbit}", cls="version"))
    return el("header", el("div", *words, cls="wide"), cls="top")


def _tabs(report: AuditReport) -> Html:
    made = []
    for number, item in enumerate(report.reports):
        errors = tally(item)["error"]
        note = plural(errors, "error") if errors else "clean"
        made.append(
            el(
                "a",
                el("i", cls=f"dot {'bad' if item.failed else 'ok'}"),
                el("span", item.target, cls="path"),
                el("small", note),
                href=f"#t{number}",
            )
        )
    return el("nav", el("div", *made, cls="wide tabs"), cls="targets", aria_label="targets")


def _unread(item: Skipped) -> Html:
    return el(
        "section",
        el("h2", el("span", "not read", cls="chip error"), " ", el("span", item.what, cls="path")),
        el("p", item.reason),
        cls="card cause error",
    )


def _target(report: TargetReport, number: int) -> Html:
    made: list[Html] = []
    links: list[Html] = []
    for name, title, render in SECTIONS:
        body, note = render(report, number)
        if body:
            identifier = f"t{number}-{name}"
            count = el("span", note, cls="count") if note else Html("")
            made.append(el("section", el("h2", title, " ", count), body, id=identifier))
            links.append(el("a", title, href=f"#{identifier}"))
    return el(
        "article",
        _headline(report),
        el("nav", *links, cls="inside", aria_label="sections"),
        *made,
        id=f"t{number}",
        cls="target wide",
        data_name=report.target,
    )


def _headline(report: TargetReport) -> Html:
    counts = tally(report)
    verdict = (
        f"{plural(counts['error'], 'error')} to fix"
        if report.failed
        else "Nothing is wrong"
        if not (counts["warning"] or counts["note"])
        else "No errors"
    )
    parts = (report.kind, f"profile {report.profile}", f"judged for uid {report.uid}", f"{report.seconds:.2f} s")
    words = ("error", "warning", "note", "waived", "declared")
    nouns = {"error": "error", "warning": "warning", "note": "note"}
    tiles = [
        el(
            "li",
            el("b", f"{counts[word]:,}"),
            el("span", plural(counts[word], nouns[word]).split()[1] if word in nouns else word),
            cls=f"tile {word}{'' if counts[word] else ' zero'}",
        )
        for word in words
    ]
    for key, name in (("files", "files"), ("distributions", "distributions"), ("containers", "containers")):
        if key in report.facts:
            value = f"{report.facts[key]:,}"
            more = (
                f"{name}, {format_bytes(report.facts['bytes'])}" if key == "files" and "bytes" in report.facts else name
            )
            tiles.append(el("li", el("b", value), el("span", more), cls="tile fact"))
    return el(
        "div",
        el("p", el("span", "failed" if report.failed else "clean", cls=f"badge {'bad' if report.failed else 'ok'}")),
        el("h1", verdict),
        el("p", el("span", report.target, cls="path")),
        el("p", " \u00b7 ".join(parts), cls="muted"),
        el("ul", *tiles, cls="tiles"),
        _target_bars(report),
        cls="card headline",
    )


def _target_bars(report: TargetReport) -> Html:
    """For each GPU target how many files with device code it is served by."""
    rows = []
    names = [target.target for target in report.coverage[0].targets] if report.coverage else []
    total = len(report.coverage)
    for position, name in enumerate(names):
        states = [coverage_state(report, item, item.targets[position]) for item in report.coverage]
        bad = sum(state in ("bad", "open") for state in states)
        ok = states.count("ok")
        known = total - ok - bad
        note = f"{ok} of {plural(total, 'file')} have machine code"
        note += f", {known} declared or waived" if known else ""
        note += f", {bad} without" if bad else ""
        drawn = bar((100 * ok / total, "ok"), (100 * known / total, "known"), (100 * bad / total, "bad"), label=note)
        rows.append(el("li", el("b", name), drawn, el("span", note, cls="muted")))
    return el("ul", *rows, cls="bars") if rows else Html("")
