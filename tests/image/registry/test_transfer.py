"""Several blobs at once: results in order, one failure ends all, progress with the time that is left."""

from __future__ import annotations

import threading

import pytest

from orbit.errors import CheckFailed
from orbit.image.registry import transfer
from orbit.image.registry.reference import parse_reference
from orbit.image.registry.session import Registry
from orbit.image.registry.transfer import Meter, duration, run_all


class Told:
    def __init__(self) -> None:
        self.lines: list[tuple[str, int, int]] = []

    def step(self, text: str) -> None:
        """Not used."""

    def advance(self, what: str, done: int, total: int) -> None:
        self.lines.append((what, done, total))


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


def test_progress_is_the_sum_and_says_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(transfer.time, "monotonic", lambda: now[0])
    told = Told()
    meter = Meter(told, "pulling", 100_000_000)
    meter.at("a", 10_000_000)
    assert told.lines == []
    meter.at("b", 1, moved=1)
    assert told.lines == [("pulling, bytes", 10_000_001, 100_000_000)]
    now[0] += 4
    meter.at("b", 40_000_000, moved=39_999_999)
    assert told.lines[-1] == ("pulling (10.0 MB/s, 5 s left), bytes", 50_000_000, 100_000_000)
    assert meter.moved == 40_000_000


@pytest.mark.parametrize(
    ("seconds", "words"), [(-1, "0 s"), (59.4, "59 s"), (61, "1 min 1 s"), (3599.6, "1 h 0 min"), (7260, "2 h 1 min")]
)
def test_a_duration_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words
