"""Folders, mirrors, the archive of the host's apt: what is found, what is not, and that other bytes are never used."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.errors import InputError
from orbit.image.base.apt import HELPER, Repository
from orbit.image.base.places import Folder, HostArchive, Mirrors, Place, arrival, mirrors, partial
from tests.image.base.archive import CHOSEN, SECURITY, SUITE, Server, lock_of, serving

PACKAGES = lock_of(*CHOSEN).packages
HELLO = next(package for package in PACKAGES if package.name == "hello")


@pytest.fixture
def into(tmp_path: Path) -> Path:
    (tmp_path / "into").mkdir()
    return tmp_path / "into"


def get(place: Place, into: Path) -> tuple[dict[str, str], list[str]]:
    """What could not be had, and what was told."""
    told: list[str] = []
    return place.get(PACKAGES, into, lambda package: told.append(package.name)), sorted(told)


def arrived(into: Path) -> list[str]:
    for package in PACKAGES:
        if arrival(into, package).is_file():
            assert arrival(into, package).stat().st_size == package.size
    return sorted(package.name for package in PACKAGES if arrival(into, package).is_file())


ALL = sorted(package.name for package in PACKAGES)


def test_a_folder_has_them_by_name_or_by_path(folder: Path, pool: Path, into: Path) -> None:
    assert get(Folder(folder), into) == ({}, ALL)
    assert arrived(into) == ALL
    for path in into.iterdir():
        path.unlink()
    assert get(Folder(pool), into) == ({}, ALL)


def test_a_folder_says_what_it_has_not(folder: Path, into: Path) -> None:
    (folder / HELLO.deb).unlink()
    problems, told = get(Folder(folder), into)
    assert problems == {HELLO.deb: "not there"}
    assert told == arrived(into) == [name for name in ALL if name != "hello"]


def test_another_file_of_that_name_in_a_folder_is_refused(folder: Path, into: Path) -> None:
    (folder / HELLO.deb).write_bytes(b"something else")
    with pytest.raises(InputError, match=f"{HELLO.deb}: sha256 is .* it was not used"):
        get(Folder(folder), into)
    assert not arrival(into, HELLO).exists()
    assert not partial(into, HELLO).exists()


def test_mirrors_give_all_at_once(mirror: Server, into: Path) -> None:
    assert get(Mirrors([mirror.url]), into) == ({}, ALL)
    assert arrived(into) == ALL


@pytest.mark.parametrize(("fault", "match"), [("missing", "answers 404"), ("error", "answers 500")])
def test_a_mirror_that_has_not_one_of_them(mirror: Server, into: Path, fault: str, match: str) -> None:
    mirror.faults[HELLO.deb] = fault
    problems, _ = get(Mirrors([mirror.url]), into)
    assert list(problems) == [HELLO.deb]
    assert match in problems[HELLO.deb]
    assert arrived(into) == [name for name in ALL if name != "hello"]


def test_a_second_mirror_is_asked_for_what_the_first_has_not(mirror: Server, pool: Path, into: Path) -> None:
    mirror.faults[HELLO.deb] = "error"
    with serving(pool) as other:
        assert get(Mirrors([mirror.url, other.url]), into) == ({}, ALL)
        assert [path for path in other.seen if path.endswith(".deb")] == [f"/{HELLO.file}"]


def test_security_updates_are_asked_of_their_own_mirror_first(mirror: Server, pool: Path, into: Path) -> None:
    (pool / "toy-security").symlink_to(pool)
    assert get(Mirrors([mirror.url, f"{mirror.url}/toy-security"]), into) == ({}, ALL)
    secure = {package.deb for package in PACKAGES if package.archive == SECURITY}
    assert len(mirror.seen) == len(PACKAGES)
    assert {path.rpartition("/")[2] for path in mirror.seen if path.startswith("/toy-security/")} == secure


def test_a_connection_that_breaks_is_continued(mirror: Server, into: Path) -> None:
    mirror.faults[HELLO.deb] = "cut-once"
    assert get(Mirrors([mirror.url]), into) == ({}, ALL)
    assert mirror.seen.count(f"/{HELLO.file}") == 2


def test_a_mirror_that_always_cuts_gives_nothing(mirror: Server, into: Path) -> None:
    mirror.faults[HELLO.deb] = "cut"
    problems, _ = get(Mirrors([mirror.url]), into)
    assert "cannot be fetched" in problems[HELLO.deb]
    assert not arrival(into, HELLO).exists()


def test_other_bytes_from_a_mirror_are_refused(mirror: Server, into: Path) -> None:
    mirror.faults[HELLO.deb] = "wrong"
    with pytest.raises(InputError, match=f"{HELLO.deb}: sha256 is [0-9a-f]{{64}}, the lock says {HELLO.sha256}"):
        get(Mirrors([mirror.url]), into)
    assert not arrival(into, HELLO).exists()


def test_a_folder_can_be_a_mirror(pool: Path, into: Path) -> None:
    assert get(Mirrors([pool.as_uri()]), into) == ({}, ALL)


@pytest.mark.parametrize("value", ["mirror.example/debian", "ftp://host/debian", "https://", "/srv/debian"])
def test_what_is_no_address_is_refused(value: str) -> None:
    with pytest.raises(InputError, match="not the address of a mirror"):
        mirrors(f"http://mirror.example/debian {value}")


def test_addresses_are_separated_by_blanks_or_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    assert mirrors("") == mirrors() == ()
    monkeypatch.setenv("ORBIT_DEBIAN", " http://a/debian,https://b/x  file:///srv/debian ")
    assert mirrors() == ("http://a/debian", "https://b/x", "file:///srv/debian")


def host(*urls: str) -> HostArchive:
    if not Path(HELPER).is_file():
        pytest.skip(f"{HELPER} is not there: no apt")
    return HostArchive([Repository(url=f"{url}/", suite=suite) for url in urls for suite in (SUITE, SECURITY)])


def test_apt_fetches_from_the_hosts_archive(mirror: Server, into: Path) -> None:
    place = host(mirror.url)
    assert get(place, into) == ({}, ALL)
    assert arrived(into) == ALL
    assert place.name == f"{mirror.url}/ (of the host's apt)"


@pytest.mark.parametrize(("fault", "match"), [("missing", "404"), ("error", "500"), ("cut", "")])
def test_apt_says_what_it_cannot_get(mirror: Server, into: Path, fault: str, match: str) -> None:
    mirror.faults[HELLO.deb] = fault
    problems, told = get(host(mirror.url), into)
    assert list(problems) == [HELLO.deb]
    assert match in problems[HELLO.deb]
    assert told == arrived(into) == [name for name in ALL if name != "hello"]


def test_apt_goes_to_the_hosts_second_mirror(mirror: Server, pool: Path, into: Path) -> None:
    mirror.faults[HELLO.deb] = "missing"
    with serving(pool) as other:
        assert get(host(mirror.url, other.url), into) == ({}, ALL)


def test_other_bytes_from_apt_are_refused(mirror: Server, into: Path) -> None:
    mirror.faults[HELLO.deb] = "wrong"
    with pytest.raises(InputError, match=f"{HELLO.deb}: sha256 is"):
        get(host(mirror.url), into)
    assert not arrival(into, HELLO).exists()


def test_apt_is_not_asked_for_an_archive_it_does_not_know(into: Path) -> None:
    place = HostArchive([Repository(url="http://127.0.0.1:9/", suite="other")])
    assert set(get(place, into)[0].values()) == {"no such archive"}
