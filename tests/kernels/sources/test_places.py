"""orbit.kernels.sources.places: which names are looked for, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.errors import InputError
from orbit.kernels.sources.model import Pin
from orbit.kernels.sources.places import bundle_name, find_file, find_repositories, repository_names, source_folders

PIN = Pin(path="", url="https://forge.invalid/owner/kernel", commit="1" * 40, tree="2" * 40)


def test_names_of_a_repository() -> None:
    names = ("forge.invalid/owner/kernel", "owner/kernel", "kernel")
    assert repository_names("https://forge.invalid/owner/kernel.git/") == names
    assert repository_names(PIN.url) == names
    assert repository_names("https://forge.invalid:8443/a/b/c")[:2] == ("forge.invalid/a/b/c", "a/b/c")
    assert repository_names("https://forge.invalid/../../etc") == ("etc",)
    assert bundle_name(PIN) == f"kernel-{'1' * 40}.bundle"


def test_every_documented_name_is_found_in_order(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    names = []
    for name in ("forge.invalid/owner/kernel", "owner/kernel", "kernel"):
        for suffix in (f"-{'1' * 40}.bundle", ".git", "", ".bundle"):
            path = second / (name + suffix)
            path.parent.mkdir(parents=True, exist_ok=True)
            names.append(path)
            if suffix.endswith(".bundle"):
                path.write_bytes(b"")
            else:
                (path / ".git" if suffix == "" else path / "objects").mkdir(parents=True)
                (path / "HEAD").write_bytes(b"")
    (first / "kernel").mkdir(parents=True)  # an unpacked sdist, say: no repository
    assert [place.path for place in find_repositories((first, second), PIN)] == names
    assert [place.bundle for place in find_repositories((second,), PIN)] == [True, False, False, True] * 3


def test_folders_of_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.delenv("ORBIT_SOURCES", raising=False)
    assert source_folders() == ()
    monkeypatch.setenv("ORBIT_SOURCES", f"{tmp_path}/a:{tmp_path}/b:")
    assert source_folders() == (tmp_path / "a", tmp_path / "b")
    with pytest.raises(InputError, match=r"ORBIT_SOURCES: .*/c: no such folder"):
        source_folders(f"{tmp_path}/c")


def test_files_by_name(tmp_path: Path) -> None:
    (tmp_path / "k.whl").write_bytes(b"")
    assert find_file((tmp_path / "none", tmp_path), "k.whl") == tmp_path / "k.whl"
    assert find_file((tmp_path,), "other.whl") is None
