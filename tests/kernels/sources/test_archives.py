"""orbit.kernels.sources.archives: sdists are unpacked whole and nowhere else."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from orbit.core.paths import checkout_root
from orbit.errors import InputError, OrbitError
from orbit.kernels.recipe import load_recipe
from orbit.kernels.sources.archives import unpack_sdist
from orbit.kernels.sources.model import resolve_source
from orbit.profile.lock import parse_lock


def sdist(path: Path, names: list[str]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = 1
            tar.addfile(member, io.BytesIO(b"x"))
    return path


def test_the_one_folder_of_an_sdist_becomes_the_source(tmp_path: Path) -> None:
    unpack_sdist(sdist(tmp_path / "a.tar.gz", ["thing-1/setup.py", "thing-1/csrc/a.cu"]), tmp_path / "src")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar.gz", "src"]
    assert (tmp_path / "src" / "csrc" / "a.cu").read_bytes() == b"x"


def test_what_is_no_sdist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one folder"):
        unpack_sdist(sdist(tmp_path / "a.tar.gz", ["one/x", "two/x"]), tmp_path / "src")
    with pytest.raises(OrbitError, match="not a usable sdist"):
        unpack_sdist(sdist(tmp_path / "b.tar.gz", ["thing/../../../outside"]), tmp_path / "src2")
    assert not (tmp_path.parent / "outside").exists()
    (tmp_path / "c.tar.gz").write_bytes(b"no archive")
    with pytest.raises(InputError, match="not a usable sdist"):
        unpack_sdist(tmp_path / "c.tar.gz", tmp_path / "src3")


def test_a_package_without_an_sdist_and_a_folder_that_is_gone(tmp_path: Path) -> None:
    text = (
        'version = 1\nrequires-python = ">=3.12"\n[[package]]\nname = "orbit"\nversion = "1"\n'
        'source = { editable = "." }\n[[package]]\nname = "causal-conv1d"\nversion = "1"\n'
        'source = { registry = "https://index.invalid/simple" }\n'
    )
    lock = parse_lock(text.encode(), tmp_path / "uv.lock")
    with pytest.raises(InputError, match="no sdist"):
        resolve_source(load_recipe("causal-conv1d"), lock, checkout_root())
    with pytest.raises(InputError, match="no such folder"):
        resolve_source(load_recipe("orbit-probe"), lock, tmp_path)
