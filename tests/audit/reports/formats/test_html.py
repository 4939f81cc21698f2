"""The HTML page as text: everything is in it, nothing leaves it, and no name can become markup."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from html.parser import HTMLParser

import msgspec
import pytest

from orbit.audit.reports.formats.html import SECTIONS, to_html
from orbit.audit.reports.formats.html_findings import EVIDENCE, LISTED
from orbit.audit.reports.formats.html_tables import coverage, sizes
from orbit.audit.reports.formats.markup import Html, bar, data_block, el, join
from orbit.audit.reports.report import AuditReport
from orbit.audit.reports.view import visible
from orbit.core.findings import Skipped
from tests.audit.written_reports import COVERAGE, HOSTILE, call, finding, full_report, hostile_report, report

UNREAD = (Skipped(what="broken.whl", reason="not a zip file"),)
CALLS = (
    call(report()),
    call(full_report()),
    call(full_report(), report(target="wheels", kind="wheels"), unread=UNREAD),
    call(hostile_report()),
    call(unread=UNREAD),
)


class Reader(HTMLParser):
    """Elements, their attributes and the text outside of scripts and styles; fails on what is not balanced."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text: list[str] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in ("meta", "input"):
            self.open.append(tag)
        if tag in self.raw:
            self.raw[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in self.raw:
            self.raw[self.open[-1]][-1] += data
        else:
            self.text.append(data)


def read(made: AuditReport) -> Reader:
    return Reader(to_html(made).decode())


@pytest.mark.parametrize("made", CALLS)
def test_page_is_whole_and_asks_for_nothing(made: AuditReport) -> None:
    page = read(made)
    allowed = {"html", "head", "meta", "title", "style", "body", "header", "nav", "main", "section", "article", "div",
               "h1", "h2", "h3", "p", "ul", "ol", "li", "dl", "dt", "dd", "b", "i", "small", "span", "code", "pre", "a",
               "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "button", "input", "label", "svg",
               "rect", "noscript", "script"}  # fmt: skip
    assert {name for name, _attributes in page.elements} <= allowed
    for _name, attributes in page.elements:
        assert not {"src", "style", "action", "srcset", "data"} & set(attributes)
        assert not [key for key in attributes if key.startswith("on")]
        assert attributes.get("href", "#").startswith("#")
    style, script = page.raw["style"][0], page.raw["script"][-1]
    assert "url(" not in style
    assert "@import" not in style
    assert not re.search(r"fetch|XMLHttp|WebSocket|import\(|innerHTML|document\.write|eval\(|http", script)


@pytest.mark.parametrize("made", CALLS)
def test_policy_allows_exactly_the_style_and_the_script_that_are_there(made: AuditReport) -> None:
    page = read(made)
    (policy,) = [a["content"] for name, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
    scripts = [
        text
        for text, (_name, attributes) in zip(
            page.raw["script"], (item for item in page.elements if item[0] == "script"), strict=True
        )
        if attributes.get("type") != "application/json"
    ]
    assert policy == f"default-src 'none'; style-src '{digest(*page.raw['style'])}'; script-src '{digest(*scripts)}'"


def digest(only: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(only.encode()).digest()).decode()}"


@pytest.mark.parametrize("made", CALLS)
def test_every_link_leads_to_a_place_of_the_page_and_no_id_is_twice(made: AuditReport) -> None:
    page = read(made)
    ids = [attributes["id"] for _name, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {attributes["href"][1:] for _name, attributes in page.elements if "href" in attributes} <= set(ids)


def test_hostile_names_are_text_and_nothing_else() -> None:
    data = to_html(call(hostile_report()))
    text = data.decode()
    assert len(re.findall(r"<script\b", text)) == 2  # the data and the one that is ours
    assert len(re.findall(r"</script", text)) == 2
    for character in "\x00\x07\x1b\x85\x9b\u2028\u2029\u202e\ufffe":
        assert character not in text
    page = read(call(hostile_report()))
    seen = "\n".join(page.text)
    for name in HOSTILE:
        assert visible(name) in seen, name
    assert not re.search(r"<(b|script)>", seen.replace("<script>alert(1)</script>", "").replace("&amp;<b>", ""))


def test_loader_data_comes_out_as_it_went_in() -> None:
    made = hostile_report()
    page = read(call(made))
    data = json.loads(page.raw["script"][0])
    strings, hows = data["strings"], data["hows"]
    rows = [(strings[f], strings[s], hows[how], strings[p]) for f, s, p, how in data["rows"]]
    assert rows == [tuple(map(visible, (row.file, row.soname, row.how, row.path))) for row in made.loader]


def test_everything_a_report_has_is_on_the_page() -> None:
    page = read(call(full_report(), unread=UNREAD))
    seen = " ".join(" ".join(page.text).split())
    for words in (
        "2 of 2 targets failed", "broken.whl", "not a zip file", "1 error to fix", "/opt/orbit",
        "environment \u00b7 profile probe \u00b7 judged for uid 65534 \u00b7 1.50 s",
        "build it for sm_100a as well", "3 of 4 containers have nothing that b200 (B200) can load",
        "every piece of device code has machine code for every target", "orbit audit explain arch-coverage",
        "known upstream (until 2027-01-01)", "two words + more", "made for Hopper only",
        "1.2 MB of 4.0 MB can be used by no declared target", "at run time: h100, b200", "NCCL", "2.28.9",
        "3 stubs", "6 missing", "libcuda.so.1", "not selected", "(2 s)", "2 distributions", "1 waived finding",
    ):  # fmt: skip
        assert words in seen, words
    titles = [title for _name, title, _render in SECTIONS]
    assert all(title in seen for title in titles)


def test_what_is_empty_has_no_section() -> None:
    seen = " ".join(read(call(report())).text)
    for title in ("What to do", "Device code", "Size by architecture", "Libraries", "Kernels", "Declared exceptions"):
        assert title not in seen
    assert "Nothing is wrong" in seen


@pytest.mark.parametrize(
    ("findings", "state"),
    [((finding(evidence={"target": "b200"}),), "bad"), ((), "declared"), ((finding(waiver="x"),), "waived")],
)
def test_cells_say_whether_somebody_knows_of_the_gap(findings: tuple[object, ...], state: str) -> None:
    made = report(findings=findings, coverage=(COVERAGE,))
    markup, note = coverage(made, 0)
    assert note == "1 file"
    cells = re.findall(r'<td class="cell (\w+) registering"[^>]*data-target="(\w+)">(.*?)</td>', markup)
    assert [(name, target) for name, target, _content in cells] == [("ok", "h100"), (state, "b200")]
    numbers = re.sub(r"<[^>]+>", " ", cells[1][2]).split()
    assert numbers == ["1", "sass", "2", "ptx", "1", "none"]


def test_size_bars_add_up() -> None:
    markup, note = sizes(full_report(), 0)
    assert note == "1.2 MB of 4.0 MB can be used by no declared target"
    whole = re.search(r'class="whole">(.*?)</div>', markup)
    assert whole is not None
    widths = [float(width) for width in re.findall(r'width="([0-9.]+)"', whole[1])]
    assert sum(widths) == pytest.approx(100, abs=0.01)
    assert widths == pytest.approx([62.5, 7.5, 30.0])


def test_thousands_of_findings_leave_a_page_of_bounded_size() -> None:
    found = tuple(finding(subject=f"f{i}.so", evidence={"seen": "x" * 50_000}) for i in range(3000))
    page = to_html(call(report(findings=found)))
    assert len(page) < 1_000_000
    text = html.unescape(page.decode())
    assert f"... and {3000 - LISTED:,} more in the JSON report" in text
    assert f"... of {3000 - EVIDENCE:,} more in the JSON report" in text


def test_a_loader_table_of_a_hundred_thousand_rows_is_small_in_the_page() -> None:
    row = full_report().loader[1]
    rows = tuple(msgspec.structs.replace(row, file=f"folder/f{i // 20}.so") for i in range(100_000))
    assert len(to_html(call(report(loader=rows)))) < 2_000_000


def test_markup_escapes_what_is_not_markup() -> None:
    assert (
        el("p", "<b>", el("b", "&"), title='"', data_x_="1") == '<p title="&quot;" data-x="1">&lt;b&gt;<b>&amp;</b></p>'
    )
    assert join(("a<", Html("<br>")), " ") == "a&lt; <br>"
    assert "</script" not in data_block("x", "</script><!--\u2028")[:-9]
    assert bar((0, "a"), (25, "b")).count("<rect") == 1
