"""Causes have words, each of them."""

from __future__ import annotations

from orbit.image.diff.causes import CAUSES, REAL, SHORT, why
from orbit.kernels.wheels.causes import CAUSES as BUILD_CAUSES


def test_every_cause_has_a_sentence_and_words() -> None:
    assert set(CAUSES) == set(SHORT)
    assert set(CAUSES) >= set(BUILD_CAUSES)
    assert set(CAUSES) >= REAL


def test_words() -> None:
    assert why(["build-id"]) == "build id only"
    assert why(["pyc-time"]) == "time in the .pyc header only"
    assert why(["build-id", "code", "compiler", "code"]) == "machine code (also build id, other compiler version)"
    assert why(["text"]) == "text"
    assert why(["follows-source"]) == "follows its source"
    assert why([]) == ""
