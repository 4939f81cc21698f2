"""The page of a rule on a terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orbit.audit.reports import explain as module
from orbit.audit.reports.explain import explain, list_rules, rule_page, sections
from orbit.audit.rules import RULES, TITLES
from orbit.core.paths import data_root
from orbit.errors import InputError


@pytest.mark.parametrize("rule", sorted(RULES))
def test_every_rule_is_explained(rule: str) -> None:
    for width in (60, 100):
        lines = explain(rule, width=width).splitlines()
        assert lines[0] == rule
        assert f"wanted: {TITLES[rule]}" in " ".join(" ".join(lines).split())
        assert [line for line in lines if len(line) > width and not line.startswith("    ")] == []
        assert not [line for line in lines if line.startswith(("|", "```", "#"))]


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("arch-coverag", "did you mean arch-coverage"),
        ("symbolversion", "symbol-version"),
        ("../../etc/passwd", "lists the rules"),
        ("", "lists the rules"),
        ("ARCH-COVERAGE", "lists the rules"),
        ("a" * 5000, "lists the rules"),
    ],
)
def test_unknown_rule_gives_a_way_out(rule: str, says: str) -> None:
    with pytest.raises(InputError, match="no rule named") as caught:
        explain(rule)
    assert says in caught.value.fix


def test_list_names_every_rule_once() -> None:
    text = list_rules()
    for rule, title in TITLES.items():
        assert len(re.findall(rf"^  {rule} +{re.escape(title)}$", text, re.MULTILINE)) == 1, rule
    assert "\nintegrity\n" in f"\n{text}"


PAGE = """# some-rule

First `code span` words
go on with *emphasis* and a [link](x.md).

## How to fix

- one item that is long enough to be wrapped at forty columns
- two

| a | b |
|---|---|
| `sass` | a row of a table that is long enough |

```
code   stays
```
"""


def write_page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "data_file", lambda *parts: folder.joinpath(*parts))
    (folder / "docs/rules").mkdir(parents=True)
    (folder / "docs/rules/some-rule.md").write_text(PAGE)


def test_page_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_page(tmp_path, monkeypatch)
    assert explain("some-rule", width=40).splitlines() == [
        "some-rule",
        "---------",
        "",
        "First `code span` words go on with",
        "emphasis and a link.",
        "",
        "How to fix",
        "----------",
        "",
        "- one item that is long enough to be",
        "  wrapped at forty columns",
        "- two",
        "",
        "- `sass`: a row of a table that is long",
        "  enough",
        "",
        "    code   stays",
    ]


def test_colour_marks_headings_and_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_page(tmp_path, monkeypatch)
    lines = explain("some-rule", color=True).splitlines()
    assert lines[0] == "\x1b[1msome-rule\x1b[0m"
    assert "First \x1b[36mcode span\x1b[0m words" in lines[2]


def test_sections_of_a_page() -> None:
    found = sections(PAGE)
    assert list(found) == ["", "How to fix"]
    assert found[""].startswith("First")
    assert "- two" in found["How to fix"]


def test_no_page_without_a_rule_id() -> None:
    assert rule_page("../rules/arch-coverage") == ""
    assert rule_page("no-such-rule") == ""
    assert rule_page("arch-coverage").startswith("# arch-coverage")


def test_the_wheel_ships_the_pages() -> None:
    settings = (data_root() / "pyproject.toml").read_text()
    assert '"docs/rules" = "orbit/_data/docs/rules"' in settings
