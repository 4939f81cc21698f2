"""The repository that the root file system is made from: only what was hashed, and apt reads it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from orbit.errors import InputError
from orbit.image.base.control import paragraphs
from orbit.image.base.repository import write_repository
from tests.image.base.archive import CHOSEN, SUITE, Toy, lock_of

LOCK = lock_of(*CHOSEN)


def debs(folder: Path) -> dict[str, Path]:
    return {package.name: folder / package.deb for package in LOCK.packages}


def test_index_and_release_say_what_is_there(tmp_path: Path, folder: Path) -> None:
    root = tmp_path / "repository"
    write_repository(root, SUITE, LOCK, debs(folder))
    index = root / "dists" / SUITE / "main" / "binary-amd64" / "Packages"
    stanzas = list(paragraphs(index.read_text().splitlines()))
    assert [(each["Package"], each["SHA256"]) for each in stanzas] == [
        (package.name, package.sha256) for package in LOCK.packages
    ]
    for each in stanzas:
        assert hashlib.sha256((root / each["Filename"]).read_bytes()).hexdigest() == each["SHA256"]
    assert stanzas[1]["Depends"] == "libhello1 (>= 1.0)"
    release = (root / "dists" / SUITE / "Release").read_text()
    assert f" {hashlib.sha256(index.read_bytes()).hexdigest()} {index.stat().st_size} main/" in release
    assert len(list((root / "pool").iterdir())) == len(LOCK.packages)


def test_equal_packages_make_equal_files(tmp_path: Path, folder: Path) -> None:
    for name in ("a", "b"):
        write_repository(tmp_path / name, SUITE, LOCK, debs(folder))
    for path in (tmp_path / "a").rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "b" / path.relative_to(tmp_path / "a")).read_bytes()


def test_a_file_that_changed_since_it_was_fetched_is_refused(tmp_path: Path, folder: Path) -> None:
    with open(folder / CHOSEN[1].deb, "ab") as file:
        file.write(b"more")
    with pytest.raises(InputError, match="it was not used"):
        write_repository(tmp_path / "repository", SUITE, LOCK, debs(folder))


@pytest.mark.parametrize(
    "lie", [{"version": "1:2.10-4"}, {"architecture": "amd64"}, {"name": "hallo"}], ids=lambda lie: next(iter(lie))
)
def test_a_package_that_calls_itself_otherwise_is_refused(tmp_path: Path, folder: Path, lie: dict[str, str]) -> None:
    hello = replace(LOCK.packages[1], **lie)
    lock = replace(LOCK, packages=(LOCK.packages[0], hello, LOCK.packages[2]))
    files = {**debs(folder), hello.name: folder / CHOSEN[1].deb}
    with pytest.raises(InputError, match=r"hello 1:2\.10-3 all, the lock says"):
        write_repository(tmp_path / "repository", SUITE, lock, files)


def test_what_is_no_package_is_refused(tmp_path: Path, folder: Path) -> None:
    path = folder / Toy("odd").deb
    path.write_bytes(b"no package")
    odd = replace(lock_of(Toy("odd")).packages[0], sha256=hashlib.sha256(b"no package").hexdigest())
    with pytest.raises(InputError, match="not a Debian package"):
        write_repository(tmp_path / "repository", SUITE, replace(LOCK, packages=(odd,)), {"odd": path})
