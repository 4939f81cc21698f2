"""Patterns: what is refused, and that none of ours can be made slow by what is in the text."""

from __future__ import annotations

import re

import pytest

from orbit.doctor.catalog import load_catalog, patterns_of
from orbit.doctor.patterns import LEAST_LITERAL, MOST_WAYS, MOST_WIDTH, compile_pattern
from orbit.errors import InputError


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("(a+)+bcdefgh", "without limit"),
        ("abcdef.*ghijkl", "without limit"),
        ("(?:abcdefg ?){1,50}x", "ways"),
        ("abcdef.{0,300}x.{0,300}y", "ways"),
        ("abcdef.{400}.{400}.{400}.{400}.{400}.{400}.{400}.{400}", "bytes at most"),
        (r"(abcdefgh)\1", "not allowed"),
        ("(?=abcdefgh)abcdefgh", "not allowed"),
        ("(?i)no space left", "flags"),
        (".{0,20}abcdefgh", "begins with a repetition"),
        ("abc", "in a row"),
        ("x[abcdefgh]{8}", "in a row"),
        ("abcdefgh(", "missing"),
        ("abcdefgh\u00e4", "ascii"),
    ],
)
def test_what_could_be_slow_or_says_nothing_is_refused(text: str, word: str) -> None:
    with pytest.raises(InputError, match="pattern") as caught:
        compile_pattern(text)
    assert word in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("No space left", b"x No space left y"),
        ("(?:red|green) apples are", b"green apples are"),
        ("begin[^\n]{0,80}middle", b"begin ... middle"),
        (r"^ - deep-ep==", b"a\n - deep-ep==2"),
        ("in recvfds\n    raise EOFError", b"in recvfds\n    raise EOFError"),
    ],
)
def test_what_is_bounded_is_accepted(text: str, line: bytes) -> None:
    pattern = compile_pattern(text)
    match = pattern.search.search(line)
    assert match is not None
    assert pattern.literal in match[0]
    assert pattern.weight >= len(pattern.literal)


@pytest.mark.parametrize(
    ("text", "alike"),
    [
        ("No space left", True),
        (r"found version \d{3,6}\)", True),
        ("is not [^`\n]{1,20} equal", True),
        ("libfoo[.0-9]{0,6}: cannot", True),
        (r"abcdefg\w{2,5}", True),
        ("exit code 143", False),
        (r"libcudart\.so\.1[2-9]", False),
        ("depends on\\s{1,12}tilelang", False),
        ("is not [^`]{1,20} equal", False),
        ("in recvfds\n    raise", False),
        ("(?:exit code|status 7) abcdefg", False),
        ("abcdefgh[^0-4\n]x", False),
    ],
)
def test_patterns_that_do_not_tell_digits_apart(text: str, alike: bool) -> None:
    assert compile_pattern(text).digits_alike is alike


def test_most_patterns_of_the_catalogue_do_not() -> None:
    patterns = [pattern for name in load_catalog() for pattern in patterns_of(name)]
    assert sum(pattern.digits_alike for pattern in patterns) > len(patterns) / 2


def test_every_pattern_of_the_catalogue_is_bounded() -> None:
    patterns = [pattern for name in load_catalog() for pattern in patterns_of(name)]
    assert len(patterns) >= 200
    assert [pattern.text for pattern in patterns if len(pattern.literal) < LEAST_LITERAL - 2] == []


def hostile(text: str, literal: bytes) -> bytes:
    """A line that begins the pattern again and again and never ends it: its characters, its literal, its gaps full."""
    plain = re.sub(r"\\.|\[[^\]]*\]|\(\?:|[(){}|?*+^$,]|\d+", "", text).encode()
    half = literal[: len(literal) // 2]
    return (literal * 3 + half * 40 + plain + b"a" * 300 + b" " * 300 + b"1" * 60) * 12


def test_hostile_lines_come_to_an_end() -> None:
    """The bound is on ways and bytes, which is what is checked when a pattern is loaded; here they are really run."""
    ran = 0
    for name in load_catalog():
        for pattern in patterns_of(name):
            line = hostile(pattern.text, pattern.literal)
            pattern.search.search(line)
            pattern.search.search(b"\n".join([line[:5000]] * 3))
            ran += 1
    assert ran >= 200


def test_a_bound_would_be_noticed() -> None:
    assert MOST_WAYS <= 20_000
    assert MOST_WIDTH <= 4096
