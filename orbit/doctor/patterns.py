"""Regular expressions that a hostile line cannot make slow, and the text that any match of one must hold.

Python's engine backtracks. What a search of these patterns can cost is bounded before one is ever run: no repetition
is without an upper limit, and the number of ways in which one position of the text can be tried has a limit, too. So
the time is proportional to the length of the text, whatever is in it.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from typing import Any

from orbit.errors import InputError

MOST_REPEATS = 400
MOST_WAYS = 20_000
"""Ways to match at one position of the text."""
MOST_WIDTH = 3000
"""Bytes one match can have: what a reader in pieces must keep of the piece before."""
LEAST_LITERAL = 6
"""Characters in a row that every match must hold: looked for first, which takes no time."""
BARE_LITERAL = 4
_PARSER: Any = importlib.import_module("re._parser")
"""The parser of :mod:`re` itself (CPython 3.12): what it will run is judged, not the text of the pattern."""
DIGITS = frozenset(range(0x30, 0x3A))
NEWLINE = 0x0A
SINGLE = frozenset({"LITERAL", "NOT_LITERAL", "ANY", "IN"})


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern that passed."""

    text: str
    search: re.Pattern[bytes]
    literal: bytes
    """In every match of it."""
    weight: int
    """Characters that are given letter for letter: how much a match says."""
    digits_alike: bool
    """Whether it is within one line, and lines that differ in their digits alone are the same to it."""


@dataclass(frozen=True, slots=True)
class _Cost:
    """Of a part of a pattern: the bytes it can match, and the ways to do so at one position."""

    most: int
    ways: int


def compile_pattern(text: str) -> Pattern:
    """``text`` as a pattern for bytes; lines are told apart by ``^`` and ``$``, and ``.`` is within one.

    Raises :class:`InputError` for a pattern that is none, or that some text could make slow.
    """
    try:
        tree = _PARSER.parse(text.encode("ascii"), re.MULTILINE)
        found = re.compile(text.encode("ascii"), re.MULTILINE)
    except (re.error, ValueError) as error:
        raise InputError(f"pattern {text!r}: {error}", fix="correct the regular expression") from None
    if tree.state.flags & ~re.MULTILINE:
        raise InputError(f"pattern {text!r} has flags in it", fix="write [Nn]o instead of (?i)no")
    cost = _sequence(text, tree)
    if cost.ways > MOST_WAYS or cost.most > MOST_WIDTH:
        raise InputError(
            f"pattern {text!r}: {cost.ways} ways to match at one place, {cost.most} bytes at most",
            fix=f"shorter gaps: at most {MOST_WAYS} ways and {MOST_WIDTH} bytes",
        )
    if tree and str(tree[0][0]) in ("MAX_REPEAT", "MIN_REPEAT"):
        raise InputError(f"pattern {text!r} begins with a repetition", fix="begin with what is certain")
    runs = _literals(tree)
    longest = max(runs, key=len, default=b"")
    if len(longest) < (BARE_LITERAL if b"\n" in longest else LEAST_LITERAL):
        raise InputError(f"pattern {text!r} has no {LEAST_LITERAL} characters in a row", fix="be more specific")
    return Pattern(
        text=text, search=found, literal=longest, weight=sum(map(len, runs)), digits_alike=_digits_alike(tree)
    )


def _sequence(text: str, parts: Any) -> _Cost:
    most, ways = 0, 1
    for op, argument in parts:
        cost = _part(text, str(op), argument)
        most, ways = most + cost.most, ways * cost.ways
    return _Cost(most, ways)


def _part(text: str, op: str, argument: Any) -> _Cost:
    if op in SINGLE:
        return _Cost(1, 1)
    if op == "AT":
        return _Cost(0, 1)
    if op == "SUBPATTERN":
        return _sequence(text, argument[-1])
    if op == "BRANCH":
        branches = [_sequence(text, branch) for branch in argument[1]]
        return _Cost(max(each.most for each in branches), sum(each.ways for each in branches))
    if op in ("MAX_REPEAT", "MIN_REPEAT"):
        least, most, inner = argument
        if int(most) > MOST_REPEATS:
            raise InputError(f"pattern {text!r} repeats without limit", fix="write {0,120} instead of * or +")
        cost = _sequence(text, inner)
        ways = sum(min(cost.ways**count, MOST_WAYS + 1) for count in range(int(least), int(most) + 1))
        return _Cost(cost.most * int(most), ways)
    raise InputError(f"pattern {text!r}: {op.lower()} is not allowed", fix="no references, no looking around")


def _literals(parts: Any) -> list[bytes]:
    """The runs of characters that stand in every match, in order."""
    runs, current = [], bytearray()
    for op, argument in parts:
        if str(op) == "LITERAL":
            current.append(argument)
        elif str(op) == "SUBPATTERN" and argument[0] is None:
            inner = _literals(argument[-1])
            runs += [bytes(current), *inner]
            current = bytearray()
        elif str(op) != "AT":
            runs.append(bytes(current))
            current = bytearray()
    return [run for run in [*runs, bytes(current)] if run]


def _digits_alike(parts: Any) -> bool:
    return all(_alike(str(op), argument) for op, argument in parts)


def _alike(op: str, argument: Any) -> bool:
    if op in ("SUBPATTERN", "MAX_REPEAT", "MIN_REPEAT"):
        return _digits_alike(argument[-1])
    if op == "BRANCH":
        return all(_digits_alike(branch) for branch in argument[1])
    if op == "IN":
        return _class_alike(argument)
    if op == "LITERAL":
        return argument not in DIGITS and argument != NEWLINE
    return op in ("ANY", "AT") or (op == "NOT_LITERAL" and argument == NEWLINE)


def _class_alike(items: Any) -> bool:
    """Whether a class has all digits or none, and no line end."""
    negated = str(items[0][0]) == "NEGATE"
    held: set[int] = set()
    for op, argument in items[negated:]:
        if str(op) == "LITERAL":
            held.add(argument)
        elif str(op) == "RANGE":
            held.update(range(argument[0], argument[1] + 1))
        elif str(argument) in ("CATEGORY_DIGIT", "CATEGORY_WORD") and not negated:
            held |= DIGITS
        else:
            return False
    return (NEWLINE in held) == negated and (held >= DIGITS or not held & DIGITS)
