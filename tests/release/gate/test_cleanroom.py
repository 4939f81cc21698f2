"""The clean room: the same image or the difference; nothing of the caller; every way to stop."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from orbit.core.files import exclusive
from orbit.errors import MissingError, RefusedError
from orbit.release.gate import cleanroom
from orbit.release.gate.cleanroom import LOCK, Job, clean_room, ship_command, why_no_namespace
from orbit.release.gate.room import MARK
from tests.release.gate.rooms import job, namespaces


class Lines:
    """Progress, kept."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def step(self, text: str) -> None:
        """Keep it."""
        self.said.append(text)

    def advance(self, what: str, done: int, total: int, **_more: object) -> None:
        """Not looked at."""


def seen(work: Job) -> dict[str, object]:
    found: dict[str, object] = json.loads((work.place / "seen.json").read_text())
    return found


def test_the_same_commit_gives_the_same_image(tmp_path: Path) -> None:
    lines = Lines()
    work = replace(job(tmp_path), progress=lines)
    room = clean_room(work)
    assert (room.result, room.digest, room.candidate) == ("same", work.candidate.digest, work.candidate.digest)
    assert room.commit == work.candidate.commit
    assert room.differences == ()
    assert room.finished >= room.started
    assert len(room.run_evidence) == 64
    assert not work.place.exists()
    assert any("[lock] passed" in line for line in lines.said)


def test_another_image_is_explained(tmp_path: Path) -> None:
    room = clean_room(job(tmp_path, content=b"other"))
    assert room.result == "different"
    assert room.digest != room.candidate
    assert "1 layer(s) differ (base), 1 file(s)" in room.reason
    assert any("opt/orbit/a" in line for line in room.differences)


def test_nothing_of_the_caller_gets_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONPATH", "ORBIT_SHARED", "UV_INDEX_URL", "CFLAGS", "SECRET"):
        monkeypatch.setenv(name, "/of/the/caller")
    monkeypatch.setenv("ORBIT_PYTHON", "/usr/bin/python3.12")
    work = job(tmp_path, keep=True)
    room = clean_room(work)
    environment = seen(work)["environment"]
    assert isinstance(environment, dict)
    place = str(work.place)
    own = {name: environment.pop(name) for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "ORBIT_CACHE", "UV_CACHE_DIR")}
    assert all(value.startswith(place) for value in own.values())
    assert environment.pop("PATH") == os.environ["PATH"]
    assert environment.pop("ORBIT_PYTHON") == "/usr/bin/python3.12"
    proxies = {name: environment.pop(name) for name in list(environment) if name.lower().endswith("_proxy")}
    assert {value for name, value in proxies.items() if name.lower() != "no_proxy"} <= {"http://127.0.0.1:3128"} or (
        room.fence == "proxy"
    )
    assert set(environment) <= {"LANG", "LC_ALL", "LC_CTYPE", "TZ", "UV_NO_CONFIG"}
    assert room.environment == ("ORBIT_PYTHON", "PATH")
    assert seen(work)["argv"] == list(ship_command(work.candidate, work.profile, work.place))[1:]
    assert seen(work)["cwd"] == f"{place}/clone"


def test_a_namespace_lets_nothing_but_declared_hosts_through(tmp_path: Path) -> None:
    namespaces()
    assert why_no_namespace() == ""
    work = job(tmp_path, keep=True, ask="http://undeclared.example/x")
    room = clean_room(work)
    assert room.fence == "namespace"
    assert room.refused == {"undeclared.example": 1}
    assert room.contacted == {}
    assert "403" in str(seen(work)["answer"])


def test_a_declared_host_that_is_not_there_is_told(tmp_path: Path) -> None:
    work = job(tmp_path, ask="http://declared.example/a.whl", status="3")
    with pytest.raises(MissingError, match=r"source\.tar\.gz: cannot be had; declared\.example: "):
        clean_room(work)


def test_without_a_namespace_the_proxy_is_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanroom, "why_no_namespace", lambda: "Operation not permitted")
    room = clean_room(job(tmp_path, ask="http://undeclared.example/x"))
    assert (room.fence, room.fence_reason) == ("proxy", "Operation not permitted")
    assert room.refused == {"undeclared.example": 1}


def test_no_fence_is_a_value(tmp_path: Path) -> None:
    room = clean_room(job(tmp_path, fence="none"))
    assert (room.result, room.fence, room.contacted) == ("same", "none", {})


@pytest.mark.parametrize(("status", "kind"), [(3, MissingError), (4, RefusedError)])
def test_what_says_nothing_about_the_image_ends_the_gate(tmp_path: Path, status: int, kind: type[Exception]) -> None:
    work = job(tmp_path, status=str(status))
    with pytest.raises(kind, match=r"source\.tar\.gz: cannot be had") as stopped:
        clean_room(work)
    assert "put it there" in str(stopped.value)
    assert not work.place.exists()


@pytest.mark.parametrize("status", [1, 2, 70])
def test_a_build_that_fails_is_a_result(tmp_path: Path, status: int) -> None:
    room = clean_room(job(tmp_path, status=str(status)))
    assert (room.result, room.digest) == ("failed", "")
    assert room.reason == "source.tar.gz: cannot be had"


def test_a_source_that_nobody_declared_is_named_with_the_fix(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"refused: undeclared\.example") as stopped:
        clean_room(job(tmp_path, status="3", ask="http://undeclared.example/x"))
    assert "[cleanroom]" in stopped.value.fix


def test_two_gates_at_once(tmp_path: Path) -> None:
    work = job(tmp_path)
    started, done = threading.Event(), threading.Event()

    def other() -> None:
        with exclusive(work.place.parent / f".{work.place.name}.{LOCK}", "orbit gate in the room"):
            started.set()
            done.wait(60)

    thread = threading.Thread(target=other)
    thread.start()
    started.wait(60)
    try:
        with pytest.raises(RefusedError, match="orbit gate in the room is running"):
            clean_room(work)
    finally:
        done.set()
        thread.join()
    assert clean_room(work).result == "same"


def test_what_a_killed_gate_left_is_emptied(tmp_path: Path) -> None:
    work = job(tmp_path)
    (work.place / "clone" / "deep").mkdir(parents=True)
    (work.place / MARK).write_text("x")
    assert clean_room(work).result == "same"


def test_a_dirty_checkout_is_refused(tmp_path: Path) -> None:
    work = job(tmp_path)
    (work.root / "content").write_text("2")
    with pytest.raises(RefusedError, match=r"1 changed file\(s\): content"):
        clean_room(work)
    assert not work.place.exists()


def test_a_commit_that_is_not_there(tmp_path: Path) -> None:
    work = job(tmp_path)
    lost = replace(work, candidate=replace(work.candidate, commit="ab" * 20))
    with pytest.raises(MissingError, match=f"commit {'ab' * 20} is not in this clone"):
        clean_room(lost)


def test_no_repository(tmp_path: Path) -> None:
    work = job(tmp_path)
    with pytest.raises(MissingError, match="no git repository"):
        clean_room(replace(work, root=tmp_path))
