"""Text from files of an image as it may stand in a document."""

from __future__ import annotations

import pytest

from orbit.release.sbom.model import tidy


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("two\n  lines\t", "two lines"),
        ("\x1b[31mred\x07", "[31mred"),
        ("a\x9cb\u2028c\x00", "a b c"),
        ("\udcff", "\ufffd"),
        ("caf\u00e9", "caf\u00e9"),
        ("x" * 400, "x" * 297 + "..."),
        ("x" * 10_000_000, "x" * 297 + "..."),
    ],
)
def test_one_line_without_control_characters(text: str, expected: str) -> None:
    assert tidy(text) == expected
