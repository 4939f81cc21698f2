"""A thread beside a block: begun with it, told when it is over, waited for, also when the block fails."""

from __future__ import annotations

import threading

import pytest

from orbit.core.beside import Beside


class Waits(Beside):
    """Notes what became of it."""

    def __init__(self) -> None:
        super().__init__("waits")
        self.begun = threading.Event()
        self.finished = False

    def work(self, ended: threading.Event) -> None:
        self.begun.set()
        assert ended.wait(30)
        self.finished = True


def test_it_runs_while_the_block_does() -> None:
    with Waits() as waits:
        assert waits.begun.wait(30)
        assert not waits.finished
        assert "waits" in {thread.name for thread in threading.enumerate()}
    assert waits.finished
    assert "waits" not in {thread.name for thread in threading.enumerate()}


def test_a_block_that_fails_ends_it_too() -> None:
    waits = Waits()
    with pytest.raises(ValueError, match="mine"), waits:
        raise ValueError("mine")
    assert waits.finished
