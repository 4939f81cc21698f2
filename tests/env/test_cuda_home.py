"""orbit.env.cuda_home: the links are right, survive a move, and never touch site-packages."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from orbit.env.cuda_home import find_toolkit, link_farm
from orbit.errors import MissingError, RefusedError

FILES = (
    "bin/nvcc",
    "bin/crt/link.stub",
    "include/cuda.h",
    "include/cccl/cub/cub.cuh",
    "lib/libcudart.so.13",
    "lib/libnvrtc-builtins.so.13.0",
    "lib/libcudart_static.a",
    "lib/libcupti_plain.so",
    "nvvm/bin/cicc",
)


def make_site(root: Path, name: str = "cu13") -> Path:
    site = root / "lib" / "python3.12" / "site-packages"
    for file in FILES:
        path = site / "nvidia" / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file)
    return site


@pytest.mark.parametrize("relative", [True, False])
def test_every_toolkit_file_is_reachable(tmp_path: Path, relative: bool) -> None:
    site = make_site(tmp_path)
    farm = tmp_path / "cuda"
    assert link_farm(site, farm, relative=relative) == site / "nvidia" / "cu13"
    for file in FILES:
        assert (farm / file).read_text() == file
        if file.startswith("lib/"):
            assert (farm / "lib64" / file[4:]).read_text() == file
    assert (farm / "lib64" / "libcudart.so").read_text() == "lib/libcudart.so.13"
    assert (farm / "lib64" / "libnvrtc-builtins.so").read_text() == "lib/libnvrtc-builtins.so.13.0"
    assert not (farm / "bin").is_symlink(), "bin must be a real folder so that nvcc can be replaced"


def test_relative_farm_survives_a_move(tmp_path: Path) -> None:
    site = make_site(tmp_path / "old")
    link_farm(site, tmp_path / "old" / "cuda", relative=True)
    shutil.move(tmp_path / "old", tmp_path / "new")
    farm = tmp_path / "new" / "cuda"
    assert (farm / "bin" / "nvcc").read_text() == "bin/nvcc"
    links = [path for path in farm.rglob("*") if path.is_symlink()]
    assert links
    assert not [path for path in links if os.path.isabs(os.readlink(path))]


def test_site_packages_is_not_written(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    before = sorted(site.rglob("*"))
    link_farm(site, tmp_path / "cuda", relative=False)
    assert sorted(site.rglob("*")) == before


def test_highest_toolkit_with_a_compiler_wins(tmp_path: Path) -> None:
    site = make_site(tmp_path, "cu12")
    (site / "nvidia" / "cu13" / "lib").mkdir(parents=True)
    assert find_toolkit(site) == site / "nvidia" / "cu12"
    (site / "nvidia" / "cu13" / "bin").mkdir()
    (site / "nvidia" / "cu13" / "bin" / "nvcc").touch()
    assert find_toolkit(site) == site / "nvidia" / "cu13"


def test_no_toolkit_and_used_destination_are_refused(tmp_path: Path) -> None:
    assert find_toolkit(tmp_path) is None
    with pytest.raises(MissingError, match="no CUDA toolkit"):
        link_farm(tmp_path, tmp_path / "cuda", relative=True)
    site = make_site(tmp_path)
    (tmp_path / "cuda").mkdir()
    (tmp_path / "cuda" / "mine").touch()
    with pytest.raises(RefusedError, match="not an empty folder"):
        link_farm(site, tmp_path / "cuda", relative=True)
