"""family: halves, rivals, mixed releases and mixed CUDA majors; and the sound combinations that look like them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orbit.core.findings import Severity
from orbit.core.paths import checkout_root
from orbit.profile.lock import read_lock
from orbit.profile.model import load_profile
from tests.audit.support import judge, make_policy
from tests.writers.environment import write_sound_environment


def found(tmp_path: Path, *dists: str, profile_lock: bool = False) -> list[tuple[str, Severity]]:
    env = write_sound_environment(tmp_path / "e")
    for text in dists:
        name, version = text.split()
        env.add(name, {}, version=version)
    policy = make_policy()
    if profile_lock:
        lock = read_lock(checkout_root() / "uv.lock")
        policy = replace(policy, profile=load_profile("cu130"), lock=lock)
    return [(finding.subject, finding.severity) for finding in judge(env.prefix, "family", policy)]


@pytest.mark.parametrize(
    ("dists", "subject"),
    [
        (["transformer-engine 2.14.0", "transformer-engine-cu13 2.14.0"], "transformer-engine-cu13"),
        (["transformer-engine-torch 2.14.0"], "transformer-engine-torch"),
        (["flashinfer-cubin 0.6.14"], "flashinfer-cubin"),
        (["sgl-kernel 0.3.21", "sglang-kernel 0.4.5"], "sgl-kernel + sglang-kernel"),
        (["deep-gemm 2.0", "sgl-deep-gemm 0.1.4"], "deep-gemm + sgl-deep-gemm"),
        (["opencv-python 4.11", "opencv-python-headless 4.12"], "opencv-python + opencv-python-headless"),
        (["flashinfer-python 0.6.14", "flashinfer-jit-cache 0.6.15+cu130"], "flashinfer-jit-cache + flashinfer-python"),
        (["torch 2.11.0", "torchvision 0.25.0"], "torch + torchvision"),
        (["torch 2.11.0+cu130", "torchaudio 2.10.0"], "torch + torchaudio"),
        (["nvidia-cuda-nvcc 13.5.37", "nvidia-nvvm 13.0.88"], "nvidia-cuda-nvcc + nvidia-nvvm"),
    ],
)
def test_broken_families(tmp_path: Path, dists: list[str], subject: str) -> None:
    assert found(tmp_path, *dists) == [(subject, Severity.ERROR)]


def test_two_builds_of_nccl_are_rivals_and_two_cuda_majors(tmp_path: Path) -> None:
    assert found(tmp_path, "nvidia-nccl-cu12 2.29.3", "nvidia-nccl-cu13 2.29.7") == [
        ("nvidia-nccl-cu12 + nvidia-nccl-cu13", Severity.ERROR),
        ("CUDA 12 + 13", Severity.WARNING),
    ]


def test_cuda_12_beside_the_names_of_cuda_13(tmp_path: Path) -> None:
    assert found(tmp_path, "nvidia-cuda-runtime 13.0.96", "nvidia-cufft-cu12 11.4") == [
        ("CUDA 12 + 13", Severity.WARNING)
    ]


@pytest.mark.parametrize(
    "dists",
    [
        ["transformer-engine 2.14.0+71bbefbf"],  # built from source: one distribution has all of it
        ["transformer-engine 2.14.0", "transformer-engine-cu12 2.14.0", "transformer-engine-jax 2.14.0"],
        ["flashinfer-python 0.6.15.post1", "flashinfer-jit-cache 0.6.15.post1+cu130"],
        ["sgl-kernel 0.3.21", "sglang 0.5.9"],
        ["nvidia-cublas 13.4.1.1", "nvidia-cufft 12.0.0.61", "nvidia-nccl-cu13 2.28.9"],
        ["nvidia-cublas 13.4.1.1", "nvidia-cutlass-dsl-libs-cu12 4.6.0", "nvidia-cutlass-dsl-libs-cu13 4.6.0"],
        ["torch 2.11.0+cu130", "torchvision 0.26.1", "torchaudio 2.11.0"],
        ["torch 2.99.0", "torchvision 0.1"],
        ["opencv-python-headless 4.12"],
    ],
)
def test_sound_families(tmp_path: Path, dists: list[str]) -> None:
    assert found(tmp_path, *dists) == []


def test_the_profiles_own_combinations_bind_its_own_environments_only(tmp_path: Path) -> None:
    dists = ("sglang 0.5.9", "sglang-kernel 0.4.5")
    assert found(tmp_path, *dists) == []
    assert found(tmp_path / "x", *dists, profile_lock=True) == [("sglang", Severity.ERROR)]
