"""First contact with a registry, patience, and giving up."""

from __future__ import annotations

import threading

import pytest

from orbit.errors import MissingError
from orbit.image.registry.reference import parse_reference
from orbit.image.registry.session import WAIT_MAX_S, Patience, Registry
from orbit.image.registry.transport import Broken
from tests.image.registry.fake import FakeRegistry

SLOW = Patience(tries=3, first_s=10.0, longest_s=15.0)


class Told:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def step(self, text: str) -> None:
        self.lines.append(text)

    def advance(self, what: str, done: int, total: int, unit: str = "") -> None:
        """Not used."""


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited; nobody waits."""
    found: list[float] = []
    monkeypatch.setattr(threading.Event, "wait", lambda _self, seconds=None: found.append(seconds))
    return found


def get(registry: FakeRegistry, told: Told | None = None, **headers: str) -> None:
    reference = parse_reference(f"{registry.host}/a:1")
    with Registry(reference, patience=SLOW, progress=told or Told()) as session:
        if headers:
            registry.fault("GET", "/blobs/", "status", status=429, headers=headers, times=1)
        with session.call("GET", session.url("blobs/x"), expect=(404,), scopes=session.scopes()):
            pass


def test_patience_doubles_up_to_a_limit() -> None:
    assert [Patience(first_s=1, longest_s=30).pause_s(count) for count in (1, 2, 3, 5, 6, 60)] == [1, 2, 4, 16, 30, 30]


def test_a_server_says_how_long_to_wait(registry: FakeRegistry, pauses: list[float]) -> None:
    told = Told()
    get(registry, told, **{"Retry-After": "7"})
    assert 7.0 in pauses
    assert told.lines == [f"http://{registry.host}/v2/a/blobs/x: 429 FAULT: as told; try 2 in 7 s"]


def test_a_server_that_asks_for_an_hour_is_not_waited_for(registry: FakeRegistry, pauses: list[float]) -> None:
    with pytest.raises(Broken, match="429"):
        get(registry, **{"Retry-After": "3600"})
    assert WAIT_MAX_S < 3600
    assert 3600.0 not in pauses


def test_tries_are_counted_and_pauses_grow(registry: FakeRegistry, pauses: list[float]) -> None:
    registry.fault("GET", "/blobs/", "status", status=503, times=1000)
    with pytest.raises(Broken, match="503"):
        get(registry)
    assert [seconds for seconds in pauses if seconds in (10.0, 15.0)] == [10.0, 15.0]
    assert len(registry.asked("GET", "/blobs/")) == SLOW.tries


def test_a_refusal_that_stays_is_not_repeated(registry: FakeRegistry, pauses: list[float]) -> None:
    registry.fault("GET", "/blobs/", "status", status=403, times=1000)
    with pytest.raises(Exception, match="403"):
        get(registry)
    assert len(registry.asked("GET", "/blobs/")) == 1


def test_a_server_that_is_no_registry_is_told(registry: FakeRegistry) -> None:
    registry.fault("GET", "^/v2/$", "status", status=404)
    with pytest.raises(MissingError, match="is no registry"):
        get(registry)


def test_a_registry_on_this_machine_without_tls_needs_no_option(registry: FakeRegistry) -> None:
    with Registry(parse_reference(f"{registry.host}/a")) as session:
        assert session.url("x") == f"http://{registry.host}/v2/a/x"


def test_after_giving_up_nothing_is_sent(registry: FakeRegistry) -> None:
    with Registry(parse_reference(f"{registry.host}/a"), patience=SLOW) as session:
        session.abort()
        with pytest.raises(KeyboardInterrupt):
            session.call("GET", session.url("blobs/x"), expect=(404,), scopes=session.scopes())
    assert registry.asked("GET", "/blobs/") == []


def test_scopes_name_both_repositories_of_a_mount() -> None:
    session = Registry(parse_reference("127.0.0.1:1/a/b"))
    assert session.scopes("pull,push", source="c") == ("repository:a/b:pull,push", "repository:c:pull")
