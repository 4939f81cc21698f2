"""The lock: read back as written, refused when it is not whole or not for this definition, compared with another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from orbit.core.paths import data_root
from orbit.errors import InputError
from orbit.image.base import lock as lock_module
from orbit.image.base.definition import load_base
from orbit.image.base.lock import (
    BaseLock,
    LockedPackage,
    diff_locks,
    load_base_lock,
    read_base_lock,
    render_lock,
    write_base_lock,
)
from tests.image.base.archive import CHOSEN, DEFINITION, SECURITY, Toy, lock_of

LOCK = lock_of(*CHOSEN)


def test_a_lock_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    write_base_lock(tmp_path / "base.lock", LOCK)
    assert load_base_lock(tmp_path / "base.lock") == LOCK
    assert render_lock(replace(LOCK, packages=LOCK.packages[::-1])) == render_lock(LOCK)


def test_a_changed_package_changes_its_own_lines_only() -> None:
    newer = [replace(each, version="9") if each.name == "hello" else each for each in LOCK.packages]
    before, after = render_lock(LOCK).splitlines(), render_lock(replace(LOCK, packages=tuple(newer))).splitlines()
    assert len(before) == len(after)
    assert [line for line in after if line not in before] == ['version = "9"']


def test_the_state_of_the_archive_is_not_content() -> None:
    older = tuple(replace(release, date="2020-01-01T00:00:00Z") for release in LOCK.archives)
    assert replace(LOCK, archives=older).content == LOCK.content
    assert replace(LOCK, packages=LOCK.packages[1:]).content != LOCK.content


def test_the_shipped_lock_fits_the_shipped_definition_and_names_no_host() -> None:
    definition = load_base("base")
    shipped = read_base_lock("base", definition)
    assert len(shipped.packages) > 100
    assert set(definition.packages) <= {package.name for package in shipped.packages}
    assert {release.suite for release in shipped.archives} == set(definition.suites)
    assert "usrmerge" not in {package.name for package in shipped.packages}
    text = (data_root() / "containers" / "base.lock").read_text()
    assert not re.search(r"://|\.(org|com|net)\b", text)
    assert text == render_lock(shipped)


def stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_base_lock(tmp_path / "base.lock", LOCK)
    monkeypatch.setattr(lock_module, "data_file", lambda *parts: tmp_path / parts[-1])


def test_a_lock_for_another_definition_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stale(tmp_path, monkeypatch)
    assert read_base_lock("base", DEFINITION) == LOCK
    with pytest.raises(InputError, match=r"lock is stale.*\(more not in it\)") as caught:
        read_base_lock("base", replace(DEFINITION, packages=("hello", "more")))
    assert "orbit image base refresh" in caught.value.fix


def test_without_a_lock_nothing_is_guessed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing says which packages") as caught:
        load_base_lock(tmp_path / "base.lock")
    assert "refresh" in caught.value.fix


def broken(**fields: object) -> BaseLock:
    return replace(LOCK, packages=(replace(LOCK.packages[0], **fields), *LOCK.packages[1:]))


@pytest.mark.parametrize(
    ("lock", "match"),
    [
        (replace(LOCK, schema=9), "schema 9"),
        (replace(LOCK, packages=()), "packages"),
        (replace(LOCK, architecture="arm64"), "not a lock"),
        (broken(sha256="0" * 63), "not whole"),
        (broken(file="../../etc/passwd.deb"), "not whole"),
        (broken(file="/pool/x.deb"), "not whole"),
        (broken(file="pool/../x.deb"), "not whole"),
        (broken(file="http://host/x.deb"), "not whole"),
        (broken(file="pool/x.tar"), "not whole"),
        (broken(size=0), "not whole"),
        (broken(archive="elsewhere"), "not whole"),
        (broken(architecture="arm64"), "not whole"),
        (broken(name="a;b"), "not whole"),
        (broken(name="hello"), "package hello stands there twice"),
        (broken(file=LOCK.packages[1].file), "file name .* twice"),
    ],
)
def test_a_lock_that_is_not_whole_is_refused(tmp_path: Path, lock: BaseLock, match: str) -> None:
    (tmp_path / "base.lock").write_text(render_lock(lock))
    with pytest.raises(InputError, match=match):
        load_base_lock(tmp_path / "base.lock")


def test_an_unknown_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "base.lock").write_text(render_lock(LOCK) + 'trust = "me"\n')
    with pytest.raises(InputError, match="trust"):
        load_base_lock(tmp_path / "base.lock")


def test_what_changes_between_two_locks() -> None:
    after = lock_of(
        Toy("base-thing", "0.9-1", essential=True),
        Toy("hello", "1:2.10-3+toy2", suites=(SECURITY,)),
        Toy("added", suites=("toy",)),
    )
    diff = diff_locks(LOCK, after)
    assert [(each.name, each.kind, each.before, each.after, each.security) for each in diff.changes] == [
        ("added", "added", "", "1.0-1", False),
        ("base-thing", "downgraded", "1.0-1", "0.9-1", False),
        ("hello", "upgraded", "1:2.10-3", "1:2.10-3+toy2", True),
        ("libhello1", "removed", "1.0-1+toy1", "", False),
    ]
    assert diff.security == 1
    assert sum(each.size for each in diff.changes) == diff.size_after - diff.size_before
    assert diff.dates == ()


def test_other_bytes_with_the_same_version_are_told() -> None:
    packages: tuple[LockedPackage, ...] = (replace(LOCK.packages[0], sha256="f" * 64), *LOCK.packages[1:])
    (change,) = diff_locks(LOCK, replace(LOCK, packages=packages)).changes
    assert (change.kind, change.before, change.after) == ("rebuilt", "1.0-1", "1.0-1")


def test_the_first_lock_adds_everything() -> None:
    diff = diff_locks(None, LOCK)
    assert {change.kind for change in diff.changes} == {"added"}
    assert (diff.size_before, diff.size_after) == (0, LOCK.size)
    assert len(diff.dates) == len(LOCK.archives)
    assert diff_locks(LOCK, LOCK).changes == ()
