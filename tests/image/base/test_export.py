"""A folder for a machine without network: whole, checkable with sha256sum, taken by ORBIT_SOURCES."""

from __future__ import annotations

import errno
import shutil
import subprocess
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.errors import InputError
from orbit.image.base.export import SUMS, export_packages
from orbit.image.base.fetch import obtain_packages
from orbit.image.base.places import Folder
from tests.image.base.archive import CHOSEN, lock_of

LOCK = lock_of(*CHOSEN)


def debs(folder: Path) -> dict[str, Path]:
    return {package.name: folder / package.deb for package in LOCK.packages}


def test_what_was_exported_is_all_another_store_needs(folder: Path, tmp_path: Path, store: Store) -> None:
    files = export_packages(LOCK, debs(folder), tmp_path / "out")
    assert [(file.file, file.reused) for file in files] == [(package.deb, False) for package in LOCK.packages]
    assert len(obtain_packages(LOCK, store, [Folder(tmp_path / "out")], Silent())) == len(LOCK.packages)
    if shutil.which("sha256sum"):
        subprocess.run(["sha256sum", "--check", "--quiet", SUMS], cwd=tmp_path / "out", check=True)


def test_a_second_export_writes_what_is_missing_or_damaged(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_packages(LOCK, debs(folder), out)
    (out / LOCK.packages[0].deb).write_bytes(b"x")
    (out / LOCK.packages[1].deb).unlink()
    files = export_packages(LOCK, debs(folder), out)
    assert [file.reused for file in files] == [False, False, True]
    assert {path.name for path in out.iterdir()} == {SUMS, *(package.deb for package in LOCK.packages)}


def test_a_file_that_changed_is_never_exported(folder: Path, tmp_path: Path) -> None:
    (folder / LOCK.packages[2].deb).write_bytes(b"x")
    with pytest.raises(InputError, match="it was not used"):
        export_packages(LOCK, debs(folder), tmp_path / "out")
    assert not (tmp_path / "out" / LOCK.packages[2].deb).exists()
    assert not (tmp_path / "out" / SUMS).exists()


def test_a_disk_that_fills_up_leaves_no_part_of_a_package(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_source: Path, target: Path) -> None:
        target.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device", str(target))

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(OSError, match="No space left"):
        export_packages(LOCK, debs(folder), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
