"""orbit.kernels.workspace: the shim stands in front of the compiler, and nothing of the caller reaches a build."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orbit.errors import InputError
from orbit.kernels.buildenv import SITE
from orbit.kernels.shim.arguments import ShimError
from orbit.kernels.workspace import NOWHERE, Workspace, ninja_count

PAIRS = [("compute_90a", "sm_90a")]


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A build environment whose compiler says its arguments."""
    env = tmp_path / "environment"
    tools = env / SITE / "nvidia" / "cu13" / "bin"
    tools.mkdir(parents=True)
    for tool in ("nvcc", "cudafe++", "ptxas"):
        (tools / tool).write_text('#!/bin/sh\necho "$@"\n')
        (tools / tool).chmod(0o755)
    (env / "bin").mkdir()
    (env / "bin" / "python").symlink_to(sys.executable)
    return env


def workspace(tmp_path: Path, environment: Path) -> Workspace:
    root = tmp_path / "space"
    root.mkdir()
    space = Workspace(root, tmp_path / "log")
    space.prepare(environment, PAIRS)
    return space


def test_nvcc_is_the_shim(tmp_path: Path, environment: Path) -> None:
    space = workspace(tmp_path, environment)
    nvcc = space.cuda / "bin" / "nvcc"
    done = subprocess.run([nvcc, "-arch=sm_80", "-c", "a.cu"], cwd=space.root, capture_output=True, check=True)
    assert b"-gencode=arch=compute_90a,code=sm_90a" in done.stdout
    assert b"sm_80" not in done.stdout
    assert json.loads(space.units.read_text())["requested"] == ["compute_80:sm_80", "compute_80:compute_80"]
    assert not (environment / SITE / "nvidia" / "cu13" / "bin" / "nvcc-real").exists(), "wrote into site-packages"


def test_a_pair_without_its_feature_set_stops_the_build(tmp_path: Path, environment: Path) -> None:
    (tmp_path / "root").mkdir()
    with pytest.raises(ShimError, match="would lack"):
        Workspace(tmp_path / "root", tmp_path / "log").prepare(environment, [("compute_90", "sm_90a")])


@pytest.mark.parametrize("name", ["with blank", "a,b", "a=b", "a:b", "quo'te"])
def test_a_path_that_build_tools_trip_over_is_refused(tmp_path: Path, environment: Path, name: str) -> None:
    root = tmp_path / name
    root.mkdir()
    with pytest.raises(InputError, match="special characters") as caught:
        Workspace(root, tmp_path / "log").prepare(environment, PAIRS)
    assert "ORBIT_CACHE" in caught.value.fix
    assert not list(root.iterdir())


def test_variables_are_ours(tmp_path: Path, environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CFLAGS", "MAX_JOBS", "CUDA_HOME", "https_proxy", "TORCH_CUDA_ARCH_LIST"):
        monkeypatch.setenv(name, "the caller's")
    space = workspace(tmp_path, environment)
    variables = space.variables(jobs=3, include=("nvidia/nccl/include",), extra={"X_FORCE_BUILD": "TRUE"})
    assert "the caller's" not in variables.values()
    assert variables["MAX_JOBS"] == "3"
    assert variables["CPATH"] == str(space.env / SITE / "nvidia/nccl/include")
    assert variables["https_proxy"] == variables["HTTPS_PROXY"] == NOWHERE
    assert variables["PATH"].split(":")[:2] == [str(space.root / "fronts"), str(space.env / "bin")]
    assert variables["X_FORCE_BUILD"] == "TRUE"


def test_the_count_of_ninja(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert ninja_count(log) is None
    log.write_text("ptxas info [1/9]\n")
    log.write_text("[1/4] c++ -c a.cpp\nwarning: x[3]\n[2/4] nvcc -c b.cu\n")
    assert ninja_count(log) == (2, 4)
    log.write_text("nothing\n")
    assert ninja_count(log) is None
