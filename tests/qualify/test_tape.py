"""The tape: order, names, and bytes that are kept once."""

from __future__ import annotations

import hashlib

import pytest

from orbit.qualify.tape import FORWARD, INPUT, Tape
from tests.qualify.toy import bits


def test_entries_have_their_order_and_contents_are_stored_once() -> None:
    stored: list[str] = []
    tape = Tape(lambda digest, _data: stored.append(digest), keep_bytes=8)
    first = tape.add(INPUT, "weight", "a", bits("float32", (2,), [1.0, 2.0]))
    second = tape.add(FORWARD, "linear", "a", bits("float32", (2,), [1.0, 2.0]), [first])
    third = tape.add(FORWARD, "linear", "b", bits("float32", (3,), [1.0, 2.0, 3.0]), [first, second])
    assert (first, second, third) == (0, 1, 2)
    assert tape.entries[2].inputs == (0, 1)
    assert [entry.kept for entry in tape.entries] == [True, True, False]
    assert stored == [tape.entries[0].sha256]
    data = bits("float32", (3,), [1.0, 2.0, 3.0]).data
    assert tape.entries[2].sha256 == hashlib.sha256(data).hexdigest()


def test_a_name_stands_once_in_a_phase() -> None:
    tape = Tape(lambda _digest, _data: None, keep_bytes=8)
    tape.add(INPUT, "weight", "a", bits("float32", (1,), [1.0]))
    with pytest.raises(ValueError, match="on the tape already"):
        tape.add(INPUT, "weight", "a", bits("float32", (1,), [1.0]))
