"""Several blobs at once: results in order, one failure ends all, progress in bytes."""

from __future__ import annotations

import threading

import pytest

from orbit.errors import CheckFailed
from orbit.image.registry.reference import parse_reference
from orbit.image.registry.session import Registry
from orbit.image.registry.transfer import Meter, run_all


class Told:
    def __init__(self) -> None:
        self.lines: list[tuple[str, int, int, str]] = []

    def step(self, text: str) -> None:
        """Not used."""

    def advance(self, what: str, done: int, total: int, unit: str = "") -> None:
        self.lines.append((what, done, total, unit))


def session() -> Registry:
    return Registry(parse_reference("127.0.0.1:1/a"))


def test_results_come_in_the_order_of_the_work() -> None:
    assert run_all(session(), [lambda n=n: n for n in range(20)], jobs=5) == list(range(20))  # type: ignore[misc]
    assert run_all(session(), []) == []


def test_one_failure_stops_the_others_and_is_the_one_that_is_told() -> None:
    registry = session()
    started = threading.Event()

    def waits() -> None:
        started.set()
        assert registry.stopped.wait(30)
        registry.check_stop()

    def fails() -> None:
        started.wait(30)
        raise CheckFailed("broken")

    with pytest.raises(CheckFailed, match="broken"):
        run_all(registry, [waits, fails, waits, waits], jobs=2)


def test_progress_is_the_sum_of_all_blobs_and_begins_with_the_first_byte_that_moved() -> None:
    told = Told()
    meter = Meter(told, "pulling", 100_000_000)
    meter.at("a", 10_000_000)
    assert told.lines == []
    meter.at("b", 1, moved=1)
    meter.at("b", 40_000_000, moved=39_999_999)
    assert told.lines == [
        ("pulling", 10_000_001, 100_000_000, "bytes"),
        ("pulling", 50_000_000, 100_000_000, "bytes"),
    ]
    assert meter.moved == 40_000_000
