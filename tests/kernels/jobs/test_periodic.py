"""orbit.kernels.jobs.periodic: again and again while the block runs, never after it, however it ends."""

from __future__ import annotations

import threading

import pytest

from orbit.kernels.jobs.periodic import every


def test_it_runs_until_the_block_ends() -> None:
    calls, twice = [], threading.Event()

    def work() -> None:
        calls.append(threading.current_thread().name)
        if len(calls) > 1:
            twice.set()

    with every(0.001, work, "a name"):
        assert twice.wait(30)
    assert set(calls) == {"a name"}
    assert "a name" not in [thread.name for thread in threading.enumerate()]


def test_an_error_of_the_block_ends_it_too() -> None:
    with pytest.raises(KeyError), every(60, lambda: None, "a name"):
        raise KeyError
    assert "a name" not in [thread.name for thread in threading.enumerate()]
