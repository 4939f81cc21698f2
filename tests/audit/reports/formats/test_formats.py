"""The closed list of formats."""

from __future__ import annotations

import json

import pytest

from orbit.audit.reports.formats import FORMATS, render
from orbit.errors import InputError
from tests.audit.written_reports import call, full_report


def test_every_format_makes_bytes_that_begin_as_they_should() -> None:
    starts = {"json": b'{"schema":"orbit.audit/2"', "sarif": b"{\n", "junit": b"<?xml", "html": b"<!doctype html>"}
    assert set(starts) == set(FORMATS)
    for form, start in starts.items():
        made = render(form, call(full_report()))
        assert made.startswith(start), form
        assert made.endswith(b"\n"), form


def test_json_is_one_line_of_the_records() -> None:
    made = render("json", call(full_report()))
    assert made.count(b"\n") == 1
    assert json.loads(made)["reports"][0]["target"] == "/opt/orbit"


def test_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(InputError, match="no format named 'pdf'") as caught:
        render("pdf", call(full_report()))
    assert "text, json, sarif, junit, html" in caught.value.fix
