"""The tables of the page: device code, its size, the loader's truth table, libraries, kernels, exceptions, facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from orbit.audit.reports.formats.markup import Html, bar, data_block, el, join, sorter, table
from orbit.audit.reports.report import ArchitectureUse, LibraryCoverage, TargetCoverage, TargetReport
from orbit.audit.reports.view import coverage_state, plural, visible
from orbit.core.amounts import format_bytes

HOWS = ("missing", "ambiguous", "preloaded", "driver", "loader", "base")
"""Ways in which a need is met, the doubtful ones first; others follow."""
STATES = {
    "ok": "machine code for the target",
    "bad": "no machine code where there must be: a finding",
    "open": "no machine code; the rule did not run",
    "waived": "no machine code; the finding is waived",
    "declared": "no machine code, declared with a reason",
}


def coverage(report: TargetReport, number: int) -> tuple[Html, str]:
    """Files x targets: what each target would load, in numbers of containers."""
    if not report.coverage:
        return Html(""), ""
    names = [target.target for target in report.coverage[0].targets]
    largest = max(item.payload_bytes for item in report.coverage) or 1
    ordered = sorted(report.coverage, key=lambda item: (-item.payload_bytes, item.file))
    rows = [_coverage_row(report, item, largest) for item in ordered]
    seen = {coverage_state(report, item, target) for item in report.coverage for target in item.targets}
    legend = [el("span", el("i", cls=f"swatch {state}"), meaning) for state, meaning in STATES.items() if state in seen]
    heads = [
        sorter("file", "file", "text"),
        sorter("size", "size", "number"),
        sorter("containers", "containers", "number"),
    ]
    heads += [sorter(name, f"t{i}", "number") for i, name in enumerate(names)]
    controls = el(
        "div",
        el("input", type="search", placeholder="filter by name", aria_label="filter files by name", data_role="search"),
        el("label", el("input", type="checkbox", data_role="gaps"), " only files with a gap"),
        el("span", data_role="count", cls="muted", aria_live="polite"),
        cls="controls",
        data_for=f"t{number}-matrix",
    )
    text = (
        "Each container must have machine code for each target. A file that picks by device chooses among its "
        "containers at run time, so the file as a whole must."
    )
    drawn = table(heads, rows, cls="matrix", identifier=f"t{number}-matrix")
    return el("div", el("p", text, cls="muted"), el("p", *legend, cls="legend"), controls, drawn, cls="card"), plural(
        len(report.coverage), "file"
    )


def _coverage_row(report: TargetReport, item: LibraryCoverage, largest: int) -> Html:
    states = [coverage_state(report, item, target) for target in item.targets]
    picks = [el("span", "picks by device", cls="tag")] if item.mode == "dispatching" else []
    images = ", ".join(f"{arch}: {count:,}" for arch, count in item.images.items())
    cells = [
        el("th", el("span", item.file, cls="path", title=f"images: {images}"), *picks, scope="row"),
        el(
            "td",
            el("span", format_bytes(item.payload_bytes)),
            bar((100 * item.payload_bytes / largest, "plain"), label=format_bytes(item.payload_bytes)),
            cls="number sized",
        ),
        el("td", f"{item.containers:,}", cls="number"),
        *(_cell(item, target, state) for target, state in zip(item.targets, states, strict=True)),
    ]
    values = {
        f"data_t{i}": str(_badness(state, target))
        for i, (state, target) in enumerate(zip(states, item.targets, strict=True))
    }
    gap = any(state != "ok" for state in states)
    return el(
        "tr",
        *cells,
        data_file=item.file,
        data_size=str(item.payload_bytes),
        data_containers=str(item.containers),
        data_gap="1" if gap else "0",
        **values,
    )


def _badness(state: str, target: TargetCoverage) -> int:
    """What sorting by a target's column goes by: findings, then what is known, then what is fine."""
    return {"bad": 3, "open": 2, "waived": 1, "declared": 1, "ok": 0}[state] * 10**9 + target.none + target.ptx_jit


def _cell(item: LibraryCoverage, target: TargetCoverage, state: str) -> Html:
    counts = (("sass", target.sass), ("ptx", target.ptx_jit), ("none", target.none))
    pills = [el("span", el("b", f"{count:,}"), f" {name}", cls=f"pill {name}") for name, count in counts if count] or [
        el("span", "nothing", cls="pill none")
    ]
    return el(
        "td",
        *pills,
        cls=f"cell {state} {item.mode}",
        title=f"{target.target}: {STATES[state]}",
        data_target=target.target,
    )


def sizes(report: TargetReport, _number: int) -> tuple[Html, str]:
    """Bytes of device code by architecture, and how many of them no declared target can use."""
    total = sum(item.payload_bytes for item in report.architectures)
    if not total:
        return Html(""), ""
    largest = max(item.payload_bytes for item in report.architectures)
    by_use = dict.fromkeys(("sass", "jit", "unused"), 0)
    rows = []
    for item in sorted(report.architectures, key=lambda item: (-item.payload_bytes, item.arch)):
        use = _use(item)
        by_use[use] += item.payload_bytes
        who = ", ".join(item.sass) or (f"at run time: {', '.join(item.jit)}" if item.jit else "no declared target")
        drawn = bar(
            (100 * item.payload_bytes / largest, use), label=f"{item.arch}: {format_bytes(item.payload_bytes)}, {who}"
        )
        rows.append(
            el(
                "li",
                el("span", item.arch, cls="arch"),
                drawn,
                el("span", format_bytes(item.payload_bytes), cls="number"),
                el("span", who, cls=f"who {use}"),
            )
        )
    names = {
        "sass": "machine code that a target runs",
        "jit": "only compiled or linked at run time",
        "unused": "for no declared target",
    }
    key = [
        el(
            "li",
            el("i", cls=f"swatch use {use}"),
            el("b", format_bytes(count)),
            f" {names[use]} ({_percent(count, total)})",
        )
        for use, count in by_use.items()
    ]
    whole = bar(*((100 * count / total, use) for use, count in by_use.items()), label="all device code by use")
    note = f"{format_bytes(by_use['unused'])} of {format_bytes(total)} can be used by no declared target"
    return el(
        "div", el("div", whole, cls="whole"), el("ul", *key, cls="key"), el("ul", *rows, cls="archs"), cls="card"
    ), note


def _use(item: ArchitectureUse) -> str:
    return "sass" if item.sass else "jit" if item.jit else "unused"


def _percent(part: int, whole: int) -> str:
    share = 100 * part / whole
    return f"{share:.0f} %" if share >= 1 or not part else "below 1 %"


def loader(report: TargetReport, number: int) -> tuple[Html, str]:
    """The data of the loader table; page.js draws it."""
    if not report.loader:
        return Html(""), ""
    counts = Counter(row.how for row in report.loader)
    hows = [how for how in HOWS if how in counts] + sorted(set(counts) - set(HOWS))
    strings: dict[str, int] = {}
    rows = [
        [strings.setdefault(visible(value), len(strings)) for value in (row.file, row.soname, row.path)]
        + [hows.index(row.how)]
        for row in report.loader
    ]
    buttons = [
        el(
            "button",
            el("span", how, cls=f"how {how if how in HOWS else 'other'}"),
            el("small", f"{counts[how]:,}"),
            type="button",
            data_how=str(position),
            aria_pressed="false",
        )
        for position, how in enumerate(hows)
    ]
    controls = el(
        "div",
        el("input", type="search", placeholder="search file or library", aria_label="search the loader table"),
        el("div", *buttons, cls="filters", role="group", aria_label="only what becomes"),
        el("span", cls="muted", data_role="count", aria_live="polite"),
        cls="controls",
    )
    drawn = table(("file", "needs", "becomes", "from"), [], cls="loads")
    plain = el("noscript", el("p", "This table needs scripts; the same rows are in the JSON report.", cls="muted"))
    more = el("button", "show more", type="button", cls="more", data_role="more", hidden="")
    data = data_block(f"t{number}-loader-data", {"strings": list(strings), "hows": [*map(visible, hows)], "rows": rows})
    return el(
        "div", controls, plain, drawn, more, data, cls="card loader", data_source=f"t{number}-loader-data"
    ), plural(len(report.loader), "row")


def libraries(report: TargetReport, _number: int) -> tuple[Html, str]:
    """Libraries that must be there once, with the release their bytes state."""
    if not report.libraries:
        return Html(""), ""
    often = Counter(item.family for item in report.libraries)
    rows = [
        el(
            "tr",
            el(
                "th",
                item.family,
                *([el("span", f"{often[item.family]} files", cls="tag")] if often[item.family] > 1 else []),
                scope="row",
            ),
            el("td", item.release or "not stated", cls="" if item.release else "muted"),
            el("td", el("span", item.file, cls="path")),
        )
        for item in sorted(report.libraries, key=lambda item: (item.family, item.file))
    ]
    return el("div", table(("family", "release", "file"), rows, cls="plain"), cls="card"), plural(len(often), "family")


def depth(report: TargetReport, _number: int) -> tuple[Html, str]:
    """Kernels of each file on each target."""
    if not report.depth:
        return Html(""), ""
    names = list(dict.fromkeys(target.target for item in report.depth for target in item.targets))
    rows = []
    for item in sorted(report.depth, key=lambda item: (-item.kernels, item.file)):
        found = {target.target: target for target in item.targets}
        cells: list[Html] = []
        for name in names:
            target = found.get(name)
            if target is None:
                cells.append(el("td", "-", cls="muted"))
                continue
            state = "open" if target.missing or target.stubs else "ok"
            notes = [f"{target.missing:,} missing"] if target.missing else []
            notes += [f"{target.stubs:,} stubs"] if target.stubs else []
            pills = [el("span", el("b", f"{target.kernels:,}"), " kernels", cls="pill plain")]
            pills += [el("span", note, cls="pill ptx") for note in notes]
            small = el("small", format_bytes(target.code_bytes))
            cells.append(el("td", *pills, small, cls=f"cell depth {state}", data_target=name))
        rows.append(el("tr", el("th", el("span", item.file, cls="path"), scope="row"), *cells))
    return el("div", table(("file", *names), rows, cls="matrix depths"), cls="card"), plural(len(report.depth), "file")


def exceptions(report: TargetReport, _number: int) -> tuple[Html, str]:
    """What the expectations declare and is true."""
    if not report.expected:
        return Html(""), ""
    rows = [
        el("li", el("span", item.subject, cls="path"), el("p", item.what), el("p", item.reason, cls="muted"))
        for item in report.expected
    ]
    return el("ul", *rows, cls="card exceptions"), f"{len(report.expected):,}"


def looked_at(report: TargetReport, _number: int) -> tuple[Html, str]:
    """Numbers, rules that judged, what was skipped, what the host's driver must bring, versions."""
    numbers = [
        el(
            "div",
            el("dt", key.replace("_", " ")),
            el("dd", format_bytes(value) if key.endswith("bytes") else f"{value:,}"),
        )
        for key, value in report.facts.items()
    ]
    parts = [el("dl", *numbers, cls="facts")]
    if report.rules:
        parts.append(_list("Rules that judged it", [el("code", rule) for rule in report.rules]))
    if report.skipped:
        listed = [
            join((el("code", item.what), f" {item.reason}", f" ({item.estimate})" if item.estimate else ""))
            for item in report.skipped
        ]
        parts.append(_list("Not looked at", listed, cls="lines"))
    if report.driver_libraries:
        listed = [join((el("code", name), f" {plural(n, 'file')}")) for name, n in report.driver_libraries.items()]
        parts.append(_list("From the GPU driver of the host", listed))
    if report.distributions:
        rows = [
            el("li", el("span", name), el("span", version, cls="muted"))
            for name, version in report.distributions.items()
        ]
        parts.append(
            el(
                "details",
                el("summary", plural(len(rows), "distribution")),
                el("ul", *rows, cls="versions"),
            )
        )
    return el("div", *parts, cls="card"), ""


def _list(title: str, items: Sequence[Html], cls: str = "inline") -> Html:
    return el("div", el("h3", title), el("ul", *(el("li", item) for item in items), cls=cls))
