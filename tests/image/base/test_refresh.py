"""A new lock from an archive in miniature: the right versions from the right suites, everything signed."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.errors import InputError, MissingError
from orbit.image.base import refresh
from orbit.image.base.apt import Repository
from orbit.image.base.lock import BaseLock, diff_locks
from orbit.image.base.refresh import find_repositories, resolve
from tests.image.base.archive import (
    CHOSEN,
    DEFINITION,
    SECURITY,
    SUITE,
    TOYS,
    UPDATES,
    Server,
    Signer,
    Toy,
    lock_of,
    locked,
    write_dists,
    write_pool,
)


def publish(pool: Path, key: Signer, *toys: Toy) -> None:
    """Write and sign all suites of the archive."""
    write_pool(pool, *toys)
    for suite in DEFINITION.suites:
        write_dists(pool, suite, *(toy for toy in toys if suite in toy.suites))
        key.sign(pool, suite)


@pytest.fixture
def archive(pool: Path, key: Signer, mirror: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The archive, named in ORBIT_DEBIAN."""
    publish(pool, key, *TOYS)
    monkeypatch.setenv("ORBIT_DEBIAN", mirror.url)
    return mirror


def resolved(store: Store, key: Signer, definition: object = DEFINITION) -> BaseLock:
    assert isinstance(definition, type(DEFINITION))
    return resolve(definition, store, Silent(), keyring=key.keyring).lock


def test_the_newest_of_all_suites_and_what_it_depends_on(archive: Server, store: Store, key: Signer) -> None:
    lock = resolved(store, key)
    assert lock.packages == lock_of(*CHOSEN).packages[:2] + tuple(
        replace(package, source="hello-source", source_version="1.0-1") for package in lock_of(CHOSEN[2]).packages
    )
    assert lock.definition == DEFINITION.resolved_from
    assert [(each.suite, each.version, each.date, each.security) for each in lock.archives] == [
        (SUITE, "1.2", "2026-11-29T00:53:13Z", False),
        (UPDATES, "1.2", "2026-11-29T00:53:13Z", False),
        (SECURITY, "1.2", "2026-11-29T00:53:13Z", True),
    ]
    assert list((store.root / "tmp").iterdir()) == []


def test_everything_the_archive_lists_is_known(archive: Server, store: Store, key: Signer) -> None:
    today = resolve(DEFINITION, store, Silent(), keyring=key.keyring)
    assert today.listed == {package.sha256 for package in map(locked, TOYS)}


def test_a_second_look_changes_nothing_and_an_update_is_seen(
    archive: Server, pool: Path, store: Store, key: Signer
) -> None:
    first = resolved(store, key)
    assert resolved(store, key) == first
    publish(pool, key, *TOYS, Toy("hello", "1:2.10-3+toy1", depends="libhello1", suites=(SECURITY,)))
    diff = diff_locks(first, resolved(store, key))
    assert [(each.name, each.kind, each.security) for each in diff.changes] == [("hello", "upgraded", True)]


def test_a_version_in_two_suites_is_one_file_and_still_a_security_update(
    archive: Server, pool: Path, store: Store, key: Signer
) -> None:
    publish(pool, key, *TOYS, Toy("hello", "1:2.11-1", depends="libhello1", suites=(SUITE, SECURITY)))
    hello = resolved(store, key).packages[1]
    assert (hello.version, hello.archive, hello.security) == ("1:2.11-1", SUITE, True)


def test_priority_and_apt_belong_to_minbase_only(archive: Server, pool: Path, store: Store, key: Signer) -> None:
    publish(pool, key, *TOYS, Toy("needed", priority="required"), Toy("apt"), Toy("nice", priority="standard"))
    assert [each.name for each in resolved(store, key).packages] == ["base-thing", "hello", "libhello1"]
    minbase = resolved(store, key, replace(DEFINITION, variant="minbase"))
    assert [each.name for each in minbase.packages] == ["apt", "base-thing", "hello", "libhello1", "needed"]


def test_usrmerge_is_never_taken(archive: Server, pool: Path, store: Store, key: Signer) -> None:
    both = (Toy("usrmerge"), Toy("usr-is-merged"), Toy("tool", depends="usrmerge | usr-is-merged"))
    publish(pool, key, *TOYS, *both)
    lock = resolved(store, key, replace(DEFINITION, packages=("tool",)))
    assert [each.name for each in lock.packages] == ["base-thing", "tool", "usr-is-merged"]


def test_a_package_nobody_has_is_named(archive: Server, store: Store, key: Signer) -> None:
    with pytest.raises(InputError, match="nothing-like-it"):
        resolved(store, key, replace(DEFINITION, packages=("hello", "nothing-like-it")))
    assert list((store.root / "tmp").iterdir()) == []


def test_a_tampered_index_is_refused(archive: Server, pool: Path, store: Store, key: Signer) -> None:
    path = pool / "dists" / SECURITY / "main" / "binary-amd64" / "Packages"
    path.write_text(path.read_text().replace("SHA256: ", "SHA256: 0")[:-2] + "\n")
    with pytest.raises(InputError, match="not what Debian signed"):
        resolved(store, key)


def test_a_suite_that_nobody_has_ends_it(archive: Server, pool: Path, store: Store, key: Signer) -> None:
    (pool / "dists" / SECURITY / "InRelease").unlink()
    with pytest.raises(MissingError, match=f"no archive has {SECURITY}") as caught:
        resolved(store, key)
    assert "ORBIT_DEBIAN" in caught.value.fix


def test_a_mirror_that_is_not_there_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORBIT_DEBIAN", "http://127.0.0.1:9/debian")
    with pytest.raises(MissingError, match="cannot be fetched"):
        find_repositories(DEFINITION, tmp_path)


def test_security_comes_from_its_own_mirror(
    archive: Server, pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pool / "toy-security").symlink_to(pool)
    monkeypatch.setenv("ORBIT_DEBIAN", f"{archive.url} {archive.url}/toy-security/")
    assert find_repositories(DEFINITION, tmp_path) == (
        Repository(url=f"{archive.url}/", suite=SUITE),
        Repository(url=f"{archive.url}/", suite=UPDATES),
        Repository(url=f"{archive.url}/toy-security/", suite=SECURITY),
    )


def test_the_hosts_archive_when_no_mirror_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = [Repository(url="http://m/", suite=suite) for suite in DEFINITION.suites]
    monkeypatch.setattr(refresh, "host_repositories", lambda _definition: tuple(known))
    assert find_repositories(DEFINITION, tmp_path) == tuple(known)
    monkeypatch.setattr(refresh, "host_repositories", lambda _definition: tuple(known[:1]))
    with pytest.raises(MissingError, match="toy-updates, toy-security"):
        find_repositories(DEFINITION, tmp_path)


def test_two_suites_that_contradict_each_other_are_refused(
    archive: Server, pool: Path, store: Store, key: Signer
) -> None:
    write_dists(pool, UPDATES, Toy("hello", "1:2.10-3", depends="libhello1 (>= 1.0)", files={"other": b"bytes"}))
    key.sign(pool, UPDATES)
    with pytest.raises(InputError, match="different files of it"):
        resolved(store, key)


def test_a_release_without_a_date_is_refused() -> None:
    assert refresh._iso("Sun, 29 Nov 2026 00:53:13 UTC") == "2026-11-29T00:53:13Z"
    with pytest.raises(InputError, match="Date: 'yesterday'"):
        refresh._iso("yesterday")
