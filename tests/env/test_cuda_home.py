"""orbit.env.cuda_home: the links are right, survive a move, and never touch site-packages."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from orbit.env.cuda_home import link_farm, toolkit_folders
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
    assert link_farm(site, farm, relative=relative) == (site / "nvidia" / "cu13",)
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
    assert toolkit_folders(site) == (site / "nvidia" / "cu12",)
    (site / "nvidia" / "cu13" / "bin").mkdir()
    (site / "nvidia" / "cu13" / "bin" / "nvcc").touch()
    assert toolkit_folders(site) == (site / "nvidia" / "cu13",)


def test_no_toolkit_and_used_destination_are_refused(tmp_path: Path) -> None:
    assert toolkit_folders(tmp_path) == ()
    with pytest.raises(MissingError, match="no CUDA toolkit"):
        link_farm(tmp_path, tmp_path / "cuda", relative=True)
    site = make_site(tmp_path)
    (tmp_path / "cuda").mkdir()
    (tmp_path / "cuda" / "mine").touch()
    with pytest.raises(RefusedError, match="not an empty folder"):
        link_farm(site, tmp_path / "cuda", relative=True)


PARTS = (
    "cuda_runtime/include/cuda_runtime.h", "cuda_runtime/include/__init__.py", "cuda_runtime/lib/libcudart.so.12",
    "cuda_nvcc/bin/ptxas", "cuda_nvcc/include/crt/host_defines.h", "cuda_nvcc/include/__init__.py",
    "cuda_nvcc/nvvm/libdevice/libdevice.10.bc", "cuda_cccl/include/cub/cub.cuh", "cublas/include/cublas_v2.h",
    "cublas/lib/libcublas.so.12", "cublas/lib/__init__.py", "nccl/include/nccl.h", "cudnn/include/cudnn.h",
)  # fmt: skip
"""What the wheels of CUDA 12 look like: one folder for each component, and no nvcc in any."""


def make_parts(site: Path) -> Path:
    for file in PARTS:
        path = site / "nvidia" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file)
    return site


def test_the_components_of_cuda_12_become_one_toolkit(tmp_path: Path) -> None:
    site = make_parts(tmp_path / "site")
    farm = tmp_path / "cuda"
    folders = link_farm(site, farm, relative=True)
    assert [path.name for path in folders] == ["cublas", "cuda_cccl", "cuda_nvcc", "cuda_runtime"]
    for file in PARTS:
        component, _, inside = file.partition("/")
        if component in ("nccl", "cudnn") or inside.endswith("__init__.py"):
            continue
        assert (farm / inside).read_text() == file
    assert (farm / "lib64" / "libcublas.so").read_text() == "cublas/lib/libcublas.so.12"
    assert not (farm / "include" / "__init__.py").exists()
    assert not (farm / "include" / "nccl.h").exists(), "other wheels' headers are not merged in"
    assert not (farm / "bin" / "nvcc").exists()


def test_one_folder_goes_before_components_and_a_library_alone_is_no_toolkit(tmp_path: Path) -> None:
    site = make_parts(tmp_path / "site")
    make_whole = site / "nvidia" / "cu13" / "bin"
    make_whole.mkdir(parents=True)
    assert toolkit_folders(site) == (site / "nvidia" / "cu13",)
    shutil.rmtree(site / "nvidia" / "cu13")
    shutil.rmtree(site / "nvidia" / "cuda_runtime")
    assert toolkit_folders(site) == ()


def test_a_toolkit_of_the_host_takes_the_place_of_the_wheels(tmp_path: Path) -> None:
    site = make_parts(tmp_path / "site")
    host = tmp_path / "host"
    for file in ("bin/nvcc", "include/cuda_runtime.h", "lib64/libcudart.so.12", "nvvm/bin/cicc"):
        (host / file).parent.mkdir(parents=True, exist_ok=True)
        (host / file).write_text(f"host {file}")
    farm = tmp_path / "cuda"
    assert link_farm(site, farm, relative=False, toolkit=host) == (host,)
    assert (farm / "bin" / "nvcc").read_text() == "host bin/nvcc"
    assert (farm / "lib" / "libcudart.so").read_text() == "host lib64/libcudart.so.12"
    assert (farm / "nvvm" / "bin" / "cicc").read_text() == "host nvvm/bin/cicc"
    assert not (farm / "include" / "cub").exists()
