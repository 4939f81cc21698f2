"""Every locked package as a verified file of the store, or a list of what is missing and what to do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from orbit.core.console import Silent
from orbit.core.files import sha256_file
from orbit.core.store import Store
from orbit.errors import ExitCode, InputError, MissingError
from orbit.image.base import apt, fetch
from orbit.image.base.apt import Repository
from orbit.image.base.fetch import find_places, obtain_packages, require_places, stored
from orbit.image.base.lock import write_base_lock
from orbit.image.base.places import Folder, HostArchive, Mirrors, arrival, partial
from tests.core.processes import until
from tests.image.base.archive import CHOSEN, DEFINITION, Server, Toy, lock_of, locked, write_pool

LOCK = lock_of(*CHOSEN)
HELLO = next(package for package in LOCK.packages if package.name == "hello")


def check_all(found: dict[str, Path]) -> None:
    assert {name: sha256_file(path) for name, path in found.items()} == {
        package.name: package.sha256 for package in LOCK.packages
    }
    assert {name: path.name for name, path in found.items()} == {package.name: package.deb for package in LOCK.packages}


def test_from_a_folder_then_from_the_store(store: Store, folder: Path) -> None:
    check_all(obtain_packages(LOCK, store, [Folder(folder)], Silent()))
    check_all(obtain_packages(LOCK, store, [], Silent()))
    assert list((store.root / "downloads").iterdir()) == []


def test_what_one_place_has_not_comes_from_the_next(store: Store, folder: Path, mirror: Server) -> None:
    (folder / HELLO.deb).unlink()
    check_all(obtain_packages(LOCK, store, [Folder(folder), Mirrors([mirror.url])], Silent()))
    assert mirror.seen == [f"/{HELLO.file}"]


def test_a_damaged_package_of_the_store_is_fetched_again(store: Store, folder: Path) -> None:
    first = obtain_packages(LOCK, store, [Folder(folder)], Silent())
    first["hello"].write_bytes(b"rot")
    assert stored(HELLO, store) is None
    check_all(obtain_packages(LOCK, store, [Folder(folder)], Silent()))


def test_every_missing_file_is_named_with_where_it_was_sought(store: Store, folder: Path, mirror: Server) -> None:
    for package in LOCK.packages[:2]:
        (folder / package.deb).unlink()
        mirror.faults[package.deb] = "error" if package.name == "hello" else "missing"
    with pytest.raises(MissingError) as caught:
        obtain_packages(LOCK, store, [Folder(folder), Mirrors([mirror.url])], Silent())
    assert caught.value.code == ExitCode.MISSING
    for package in LOCK.packages[:2]:
        assert package.file in caught.value.what
        assert package.sha256 in caught.value.what
    assert LOCK.packages[2].file not in caught.value.what
    for word in (str(folder), mirror.url, "answers 404", "answers 500"):
        assert word in caught.value.what
    for word in ("ORBIT_SOURCES", "ORBIT_DEBIAN", "orbit image base refresh", "orbit image base export"):
        assert word in caught.value.fix
    assert stored(LOCK.packages[2], store) is not None


def test_what_is_the_same_for_all_is_said_once(store: Store, tmp_path: Path) -> None:
    with pytest.raises(MissingError) as caught:
        obtain_packages(LOCK, store, [Folder(tmp_path)], Silent())
    assert caught.value.what.count("not there") == 1
    assert f"\n  all of them: {tmp_path}: not there\n" in caught.value.what
    assert all(package.file in caught.value.what for package in LOCK.packages)


def test_with_no_place_at_all_that_is_said(store: Store) -> None:
    with pytest.raises(MissingError, match="this machine's apt knows no Debian archive") as caught:
        obtain_packages(LOCK, store, [], Silent())
    assert 'ORBIT_DEBIAN="http://HOST/debian http://HOST/debian-security"' in caught.value.what


def test_a_host_of_another_kind_is_named(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = tmp_path / "os-release"
    release.write_text('PRETTY_NAME="Ubuntu 24.04.1 LTS"\nID=ubuntu\nVERSION_CODENAME=noble\n')
    monkeypatch.setattr(apt, "OS_RELEASE", release)
    with pytest.raises(MissingError, match=r"knows no Debian archive \(it is Ubuntu 24\.04\.1 LTS\): name mirrors"):
        require_places(LOCK, store, [])


def test_what_cannot_be_had_is_known_before_anything_is_asked(store: Store, tmp_path: Path, mirror: Server) -> None:
    require_places(LOCK, store, [Mirrors([mirror.url])])
    assert mirror.seen == []
    with pytest.raises(MissingError, match="3 packages of the base cannot be had"):
        require_places(LOCK, store, [Folder(tmp_path)])
    for package in LOCK.packages:
        (tmp_path / package.deb).write_bytes(b"whatever: only its name is looked at")
    require_places(LOCK, store, [Folder(tmp_path)])


def test_other_bytes_end_the_run_and_never_reach_the_store(store: Store, mirror: Server) -> None:
    mirror.faults[HELLO.deb] = "wrong"
    with pytest.raises(InputError, match="was not used") as caught:
        obtain_packages(LOCK, store, [Mirrors([mirror.url])], Silent())
    assert caught.value.code == ExitCode.USAGE
    assert stored(HELLO, store) is None
    assert not arrival(store.root / "downloads", HELLO).exists()
    del mirror.faults[HELLO.deb]
    check_all(obtain_packages(LOCK, store, [Mirrors([mirror.url])], Silent()))


def test_a_file_exchanged_after_it_was_fetched_is_refused(store: Store) -> None:
    target = arrival(store.root / "downloads", HELLO)
    target.parent.mkdir(parents=True)
    target.write_bytes(b"not what was checked")
    with pytest.raises(InputError, match="sha256 is"):
        obtain_packages(replace(LOCK, packages=(HELLO,)), store, [Mirrors(["http://127.0.0.1:9"])], Silent())
    assert not target.exists()


KILLED = """
import sys
from pathlib import Path
from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.image.base.fetch import obtain_packages
from orbit.image.base.lock import load_base_lock
from orbit.image.base.lock import write_base_lock
from orbit.image.base.places import Mirrors
obtain_packages(load_base_lock(Path(sys.argv[1])), Store(Path(sys.argv[2])), [Mirrors([sys.argv[3]])], Silent())
"""


def test_a_run_that_is_killed_leaves_only_what_is_whole(
    store: Store, mirror: Server, pool: Path, tmp_path: Path
) -> None:
    """The server stops in the middle of one package; then the run is killed; the next one fetches only the rest."""
    big = Toy("big", files={"usr/share/big": bytes(3 << 20)})
    write_pool(pool, big)
    lock = lock_of(*CHOSEN, big)
    write_base_lock(tmp_path / "base.lock", lock)
    mirror.faults[big.deb] = "hang"
    argv = [sys.executable, "-c", KILLED, str(tmp_path / "base.lock"), str(store.root), mirror.url]
    with subprocess.Popen(argv) as child:
        half = partial(store.root / "downloads", locked(big))
        whole = [arrival(store.root / "downloads", package) for package in LOCK.packages]
        assert until(lambda: half.is_file() and half.stat().st_size >= 1 << 20, 30)
        assert until(lambda: all(path.is_file() for path in whole), 30)
        os.kill(child.pid, signal.SIGKILL)
    mirror.release.set()
    mirror.faults.clear()
    mirror.seen.clear()
    found = obtain_packages(lock, store, [Mirrors([mirror.url])], Silent())
    assert sha256_file(found.pop("big")) == locked(big).sha256
    check_all(found)
    assert mirror.seen == [f"/{big.path}"]
    assert mirror.ranges == [f"bytes={1 << 20}-"]


def test_places_in_order(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = (Repository(url="http://a/", suite="toy"),)
    monkeypatch.setattr(fetch, "host_repositories", lambda _definition: archive)
    assert [type(place) for place in find_places(DEFINITION)] == [HostArchive]
    monkeypatch.setenv("ORBIT_SOURCES", str(folder))
    assert [type(place) for place in find_places(DEFINITION)] == [Folder, HostArchive]
    assert [type(place) for place in find_places(DEFINITION, offline=True)] == [Folder]
    monkeypatch.setenv("ORBIT_DEBIAN", "http://mirror.example/debian")
    assert [type(place) for place in find_places(DEFINITION)] == [Folder, Mirrors]


def test_a_machine_without_apt_has_no_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert find_places(DEFINITION) == ()
