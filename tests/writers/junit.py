"""The shape of JUnit XML that CI servers agree on, checked by hand: there is no schema that all of them follow."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

TIME = re.compile(r"\d+\.\d{3}")
COUNTS = ("tests", "failures", "errors", "skipped")
CHILDREN = ("skipped", "failure", "error", "system-out")
"""Children of a case, in their order."""


def check_junit(data: bytes) -> ET.Element:
    """The document, after everything a reader counts on was asserted."""
    assert data.startswith(b'<?xml version="1.0" encoding="UTF-8"?>\n')
    root = ET.fromstring(data)
    assert root.tag == "testsuites"
    assert set(root.attrib) == {"name", "time", *COUNTS}
    assert all(TIME.fullmatch(item.get("time", "0.000")) for item in root.iter())
    for suite in root:
        check_suite(suite)
    for name in COUNTS:
        assert int(root.attrib[name]) == sum(int(suite.attrib[name]) for suite in root)
    return root


def check_suite(suite: ET.Element) -> None:
    """Assert what holds for one suite."""
    assert suite.tag == "testsuite"
    assert {"name", *COUNTS} <= set(suite.attrib) <= {"name", "time", *COUNTS}
    tags = [child.tag for child in suite]
    assert tags == [*(["properties"] if "properties" in tags else []), *["testcase"] * len(suite.findall("testcase"))]
    for item in suite.iter("property"):
        assert set(item.attrib) == {"name", "value"}
    cases = suite.findall("testcase")
    for case in cases:
        check_case(case)
    counted = {
        name: sum(case.find(tag) is not None for case in cases)
        for name, tag in zip(COUNTS[1:], CHILDREN[1:3] + CHILDREN[:1], strict=True)
    }
    assert {name: int(suite.attrib[name]) for name in COUNTS} == {"tests": len(cases), **counted}


def check_case(case: ET.Element) -> None:
    """Assert what holds for one case."""
    assert {"classname", "name"} <= set(case.attrib) <= {"classname", "name", "time"}
    assert all(case.attrib.values())
    tags = [child.tag for child in case]
    assert tags == sorted(tags, key=CHILDREN.index)
    assert all(tags.count(tag) <= 1 for tag in ("skipped", "error", "system-out"))
    assert sum(tag in tags for tag in ("skipped", "failure", "error")) <= 1
    for child in case:
        if child.tag in ("failure", "error"):
            assert {"type", "message"} == set(child.attrib)
            assert child.text
        elif child.tag == "skipped":
            assert set(child.attrib) == {"message"}
