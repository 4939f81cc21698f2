"""Can a lock be relied on today: where its files are, what waits in the archive, and what could not be found out."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.amounts import format_bytes
from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.errors import ExitCode, InputError, MissingError
from orbit.image.base import survey
from orbit.image.base.fetch import obtain_packages
from orbit.image.base.lock import BaseLock, diff_locks
from orbit.image.base.places import Folder
from orbit.image.base.refresh import Today
from orbit.image.base.survey import BaseCheck, check_lock, render_check, render_diff
from tests.image.base.archive import CHOSEN, DEFINITION, SECURITY, Toy, lock_of

LOCK = lock_of(*CHOSEN)
ALL = frozenset(package.sha256 for package in LOCK.packages)


def checked(
    store: Store, monkeypatch: pytest.MonkeyPatch, today: Today | Exception, *, offline: bool = False
) -> BaseCheck:
    def fake(*_args: object, **_rest: object) -> Today:
        if isinstance(today, Exception):
            raise today
        return today

    monkeypatch.setattr(survey, "resolve", fake)
    return check_lock("base", DEFINITION, LOCK, store, Silent(), offline=offline)


def places(check: BaseCheck) -> dict[str, str]:
    return {file.name: file.where for file in check.files}


def test_all_is_well(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    check = checked(store, monkeypatch, Today(lock=LOCK, listed=ALL))
    assert set(places(check).values()) == {"archive"}
    assert check.exit_code == ExitCode.OK
    assert "fresh: the archive has nothing newer" in render_check(check)


def test_where_each_file_is(store: Store, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    obtain_packages(lock_of(CHOSEN[0]), store, [Folder(folder)], Silent())
    (folder / CHOSEN[0].deb).unlink()
    (folder / CHOSEN[2].deb).write_bytes(b"other")
    monkeypatch.setenv("ORBIT_SOURCES", str(folder))
    check = checked(store, monkeypatch, Today(lock=LOCK, listed=frozenset()))
    assert places(check) == {"base-thing": "store", "hello": "sources", "libhello1": "nowhere"}
    assert [file.problem != "" for file in check.files] == [False, False, True]
    assert check.exit_code == ExitCode.FINDINGS
    text = render_check(check)
    assert f"{CHOSEN[2].path}: no longer in the archive" in text
    assert "other bytes than the lock says" in text
    assert text.endswith("fix: orbit image base refresh")


@pytest.mark.parametrize(("suite", "code"), [(SECURITY, ExitCode.FINDINGS), ("toy-updates", ExitCode.OK)])
def test_a_security_update_is_a_finding_another_update_is_not(
    store: Store, monkeypatch: pytest.MonkeyPatch, suite: str, code: ExitCode
) -> None:
    newer = lock_of(CHOSEN[0], Toy("hello", "1:2.11-1", suites=(suite,)), CHOSEN[2])
    check = checked(store, monkeypatch, Today(lock=newer, listed=ALL))
    assert check.exit_code == code
    assert "1:2.10-3 -> 1:2.11-1" in render_check(check)


def test_an_archive_that_cannot_be_asked_is_not_success(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    check = checked(store, monkeypatch, MissingError("no network", fix="get one"))
    assert check.exit_code == ExitCode.MISSING
    assert check.pending is None
    assert "not checked: archive: no network" in render_check(check)


def test_an_archive_that_is_not_debians_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError):
        checked(store, monkeypatch, InputError("not signed"))


def test_offline_says_what_is_at_hand(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boom = AssertionError("the archive was asked")
    assert checked(store, monkeypatch, boom, offline=True).exit_code == ExitCode.MISSING
    monkeypatch.setenv("ORBIT_SOURCES", str(folder))
    check = checked(store, monkeypatch, boom, offline=True)
    assert check.exit_code == ExitCode.OK
    assert "not checked: freshness: --offline" in render_check(check)


def test_a_difference_is_a_line_each_and_a_sum() -> None:
    after: BaseLock = lock_of(Toy("new"), Toy("hello", "1:2.10-3+toy1", suites=(SECURITY,)), CHOSEN[2])
    lines = render_diff(diff_locks(LOCK, after))
    assert [line.split()[:2] for line in lines[:3]] == [
        ["removed", "base-thing"],
        ["upgraded", "hello"],
        ["added", "new"],
    ]
    assert lines[1].endswith("security")
    assert lines[-1].startswith(
        f"1 added, 1 removed, 1 upgraded; 1 published as security updates; {format_bytes(LOCK.size)} ->"
    )
    assert render_diff(diff_locks(LOCK, LOCK)) == []
