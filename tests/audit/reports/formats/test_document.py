"""The frame of a page: nothing from outside, and only the style and script that stand in it."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from orbit.audit.reports.formats.document import HOUSE_STYLE, asset, document
from orbit.audit.reports.formats.markup import el


def test_the_policy_allows_exactly_this_style_and_script() -> None:
    page = document("a <b>", el("p", "x < y"), style="p { margin: 0 }", script="void 0;").decode()
    assert "<title>a &lt;b&gt;</title>" in page
    assert "<p>x &lt; y</p>" in page
    (policy,) = re.findall(r'content="(default-src[^"]*)"', page)
    for content in ("p { margin: 0 }", "void 0;"):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"sha256-{digest}" in policy.replace("&#x27;", "'")
    assert policy.startswith("default-src &#x27;none&#x27;")


def test_what_is_no_utf8_is_written_out() -> None:
    assert b"\\udcff" in document("x", el("p", "\udcff"), style="", script="")


def test_the_house_style_is_plain_ascii_and_asks_for_nothing() -> None:
    assert not re.search(r"url\(|@import", asset(HOUSE_STYLE))
    with pytest.raises(FileNotFoundError):
        asset(HOUSE_STYLE.with_name("none.css"))
