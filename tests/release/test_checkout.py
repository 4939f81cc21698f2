"""Which commit a checkout is, and what in it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.release.checkout import SHOWN, Checkout, git, read_checkout
from tests.release.repositories import commit, repository


def test_a_clean_clone(tmp_path: Path) -> None:
    made = repository(tmp_path, {"a": "1", ".gitignore": "/ignored\n"})
    (tmp_path / "ignored").write_text("x")
    found = read_checkout(tmp_path)
    assert found == Checkout(commit=made)
    assert found.clean


def test_changed_new_and_lost_files_are_told(tmp_path: Path) -> None:
    repository(tmp_path, {"a": "1", "b": "2"})
    (tmp_path / "a").write_text("other")
    (tmp_path / "b").unlink()
    (tmp_path / "new file").write_text("x")
    found = read_checkout(tmp_path)
    assert set(found.changed) == {"a", "b", "new file"}
    assert found.changes == 3
    assert not found.clean


def test_many_changes_are_counted(tmp_path: Path) -> None:
    repository(tmp_path, {"a": "1"})
    for number in range(9):
        (tmp_path / f"new{number}").write_text("x")
    found = read_checkout(tmp_path)
    assert (len(found.changed), found.changes) == (SHOWN, 9)


def test_no_repository(tmp_path: Path) -> None:
    found = read_checkout(tmp_path)
    assert found.commit == ""
    assert "no git repository" in found.reason
    assert not found.clean


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    repository(tmp_path / "other", {"a": "1"})
    git(tmp_path, "init", "--quiet", str(tmp_path), doing="x")
    assert read_checkout(tmp_path).reason == "git knows no commit here"


def test_a_damaged_repository_is_a_reason(tmp_path: Path) -> None:
    repository(tmp_path, {"a": "1"})
    (tmp_path / ".git" / "index").write_bytes(b"no index")
    assert read_checkout(tmp_path).commit == ""
    assert read_checkout(tmp_path).reason


def test_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository(tmp_path, {"a": "1"})
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read_checkout(tmp_path).reason == "git is not installed"


def test_the_settings_of_whoever_asks_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = repository(tmp_path / "r", {"a": "1"})
    commit(tmp_path / "r", {"b": "2"})
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[status]\n\tshowUntrackedFiles = no\n[core]\n\tpager = false\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    (tmp_path / "r" / "new").write_text("x")
    found = read_checkout(tmp_path / "r")
    assert found.commit != made
    assert found.changed == ("new",)
