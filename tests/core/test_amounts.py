"""Bytes and times in words."""

from __future__ import annotations

import pytest

from orbit.core.amounts import format_bytes, format_seconds


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (73_400_000, "73.4 MB"), (9_764_000_000, "9.76 GB")],
)
def test_bytes_in_decimal_units(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0.0 s"), (0.31, "0.3 s"), (9.99, "10 s"), (42.0, "42 s"), (119.4, "119 s"), (187.0, "3 min 07 s"),
     (3599.6, "1 h 00 min"), (7260, "2 h 01 min")],
)  # fmt: skip
def test_a_length_of_time_in_words(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
