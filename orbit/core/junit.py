"""JUnit XML, which CI servers show: one writer for everything that has cases.

The dialect is the one Jenkins, GitLab and GitHub's reporters share: ``testsuites/testsuite/testcase`` with any number
of ``failure``, one ``skipped`` or ``error``, and ``system-out``. Only the standard library is used: smoke checks write
it where nothing else is certain to work.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from xml.etree import ElementTree as ET

FORBIDDEN = re.compile("[^\\t\\n\\r\\x20-\\x7e\\x85\\xa0-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
"""What XML 1.0 does not allow (section 2.2) or discourages: controls, surrogates, non-characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One thing that is wrong with a case."""

    kind: str
    message: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One test case."""

    group: str
    """Its class name, by which servers group."""
    name: str
    seconds: float | None = None
    """None: not measured."""
    failures: tuple[Failure, ...] = ()
    error: Failure | None = None
    """It could not be asked because something broke."""
    skipped: str | None = None
    """The reason it was not asked; None when it was."""
    output: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Cases that belong together."""

    name: str
    cases: tuple[Case, ...]
    seconds: float | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def to_xml(name: str, suites: Sequence[Suite]) -> bytes:
    """The XML document, UTF-8. Counts are those of the cases; a case with three failures is one failed case."""
    root = ET.Element("testsuites", name=clean(name))
    root.extend(_suite(suite) for suite in suites)
    for count in ("tests", "failures", "errors", "skipped"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    root.set("time", f"{sum(suite.seconds or 0.0 for suite in suites):.3f}")
    ET.indent(root)
    body: bytes = ET.tostring(root, encoding="UTF-8", xml_declaration=False)
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + body + b"\n"


def _suite(suite: Suite) -> ET.Element:
    element = ET.Element("testsuite", name=clean(suite.name))
    if suite.seconds is not None:
        element.set("time", f"{suite.seconds:.3f}")
    counts = {
        "tests": len(suite.cases),
        "failures": sum(bool(case.failures) for case in suite.cases),
        "errors": sum(case.error is not None for case in suite.cases),
        "skipped": sum(case.skipped is not None for case in suite.cases),
    }
    for name, count in counts.items():
        element.set(name, str(count))
    if suite.properties:
        properties = ET.SubElement(element, "properties")
        for name, value in suite.properties.items():
            ET.SubElement(properties, "property", name=clean(name), value=clean(value))
    element.extend(_case(case) for case in suite.cases)
    return element


def _case(case: Case) -> ET.Element:
    element = ET.Element("testcase", classname=clean(case.group), name=clean(case.name))
    if case.seconds is not None:
        element.set("time", f"{case.seconds:.3f}")
    if case.skipped is not None:
        ET.SubElement(element, "skipped", message=clean(case.skipped))
    for tag, failures in (("failure", case.failures), ("error", (case.error,) if case.error else ())):
        for failure in failures:
            child = ET.SubElement(element, tag, type=clean(failure.kind), message=clean(failure.message))
            child.text = clean(failure.text or failure.message)
    if case.output:
        ET.SubElement(element, "system-out").text = clean(case.output)
    return element


def clean(text: str) -> str:
    """``text`` with every character that XML does not allow written as ``\\x1b`` or ``\\ud800``."""
    return FORBIDDEN.sub(lambda match: _escape(ord(match[0])), text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
