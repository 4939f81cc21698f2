"""JUnit XML: counts, and that no text can break the document."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.core.junit import FORBIDDEN, Case, Failure, Suite, clean, to_xml
from tests.writers.junit import check_junit

BAD = Failure(kind="k", message="m", text="the text")


def test_counts_are_those_of_the_cases() -> None:
    cases = (
        Case(group="g", name="good", seconds=1.25, output="said"),
        Case(group="g", name="bad", failures=(BAD, BAD)),
        Case(group="g", name="not asked", skipped="no GPU"),
        Case(group="g", name="broke", error=Failure(kind="k", message="m")),
    )
    suites = [Suite(name="one", cases=cases, seconds=2.0, properties={"uid": "0"}), Suite(name="two", cases=())]
    root = check_junit(to_xml("all", suites))
    counts = {name: root.get(name) for name in ("tests", "failures", "errors", "skipped", "time")}
    assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1", "time": "2.000"}
    assert [item.get("name") for item in root] == ["one", "two"]
    good, bad, skipped, broke = root.iter("testcase")
    assert (good.get("time"), good.findtext("system-out")) == ("1.250", "said")
    assert [item.text for item in bad.findall("failure")] == ["the text", "the text"]
    assert [item.get("message") for item in skipped] == ["no GPU"]
    assert broke.findtext("error") == "m"


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_any_text_survives_as_well_formed_xml(text: str) -> None:
    root = ET.Element("a", b=clean(text))
    root.text = clean(text)
    again = ET.fromstring(ET.tostring(root, encoding="UTF-8"))
    assert again.get("b") == clean(text)
    assert FORBIDDEN.search(again.text or "") is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\x00\x1b", "\\x00\\x1b"),
        ("\ud800", "\\ud800"),
        ("\ufffe\uffff", "\\ufffe\\uffff"),
        ("a\tb\nc\u2028\U0001f600", ""),
    ],
)
def test_what_xml_does_not_allow_is_written_as_an_escape(text: str, says: str) -> None:
    assert clean(text) == (says or text)
