"""The folder of a clean room, and what may get into it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orbit.core.paths import data_root
from orbit.errors import RefusedError
from orbit.profile.model import load_profile
from orbit.release.checkout import read_checkout
from orbit.release.gate.model import load_definition
from orbit.release.gate.room import (
    FOLDERS,
    MARK,
    clone,
    declared_hosts,
    empty_room,
    make_room,
    passed_on,
    room_environment,
)
from tests.release.gate.rooms import POLICY, checkout
from tests.release.repositories import commit, git


def test_made_and_emptied(tmp_path: Path) -> None:
    place = tmp_path / "a" / "room"
    make_room(place)
    assert {path.name for path in place.iterdir()} == {MARK, *FOLDERS}
    (place / "cache" / "file").write_text("x")
    empty_room(place)
    assert not place.exists()
    empty_room(place)


def test_an_empty_folder_may_become_a_room(tmp_path: Path) -> None:
    place = tmp_path / "room"
    place.mkdir()
    empty_room(place)
    make_room(place)
    assert (place / MARK).is_file()


def test_emptying_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    place = tmp_path / "room"
    make_room(place)
    (place / "cache").rmdir()
    empty_room(place)
    assert not place.exists()


@pytest.mark.parametrize("kind", ["full", "file", "link"])
def test_what_is_not_ours_is_not_emptied(tmp_path: Path, kind: str) -> None:
    place, mine = tmp_path / "room", tmp_path / "mine"
    mine.mkdir()
    (mine / "letters").write_text("dear")
    if kind == "full":
        mine.rename(place)
    elif kind == "file":
        place.write_text("x")
    else:
        (mine / MARK).write_text("")
        place.symlink_to(mine)
    with pytest.raises(RefusedError, match="room"):
        empty_room(place)
    assert place.exists()


def test_a_clone_has_the_commit_and_shares_nothing(tmp_path: Path) -> None:
    first = checkout(tmp_path / "r")
    commit(tmp_path / "r", {"content": "2"})
    (tmp_path / "room").mkdir()
    clone(tmp_path / "r", first, tmp_path / "room" / "clone")
    made = tmp_path / "room" / "clone"
    assert (made / "content").read_text() == "1"
    assert read_checkout(made).commit == first
    assert read_checkout(made).clean
    assert not (made / ".git" / "objects" / "info" / "alternates").exists()
    assert (made / "orbitw").stat().st_mode & 0o100


def test_a_commit_that_no_branch_has_can_be_cloned(tmp_path: Path) -> None:
    checkout(tmp_path / "r")
    git(tmp_path / "r", "checkout", "--quiet", "--detach")
    lost = commit(tmp_path / "r", {"content": "3"})
    git(tmp_path / "r", "checkout", "--quiet", "main")
    (tmp_path / "room").mkdir()
    clone(tmp_path / "r", lost, tmp_path / "room" / "clone")
    assert (tmp_path / "room" / "clone" / "content").read_text() == "3"


def test_hosts_are_those_the_clone_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout(tmp_path)
    profile = load_profile("probe")
    assert declared_hosts(tmp_path, profile, POLICY) == {"declared.example"}
    policy = msgspec.structs.replace(POLICY, hosts=("a.example", ".b.example"), host_apt=True)
    monkeypatch.setenv("ORBIT_DEBIAN", "http://mirror.example/debian")
    found = declared_hosts(tmp_path, profile, policy)
    assert {"declared.example", "a.example", ".b.example", "mirror.example"} <= found


def test_the_shipped_definition_names_every_host_of_the_lock() -> None:
    root = data_root()
    definition = load_definition(root)
    found = declared_hosts(root, load_profile("cu130"), definition.cleanroom)
    assert "github.com" in found
    assert len(found - set(definition.cleanroom.hosts)) >= 2


def test_only_listed_variables_are_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("HOME", "/of/the/caller")
    monkeypatch.delenv("ORBIT_PYTHON", raising=False)
    assert passed_on(POLICY) == {"PATH": "/usr/bin"}
    environment = room_environment(tmp_path, POLICY)
    assert environment["HOME"] == str(tmp_path / "home")
    assert environment["LC_ALL"] == "C.UTF-8"
