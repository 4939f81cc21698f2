"""kernels/slim.toml: which files may be touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.errors import InputError
from orbit.image.slim.rules import hands_off, load_rules, rules
from orbit.profile.model import SlimPolicy


@pytest.mark.parametrize(
    ("path", "distribution", "clause"),
    [
        ("nvidia/cu13/lib/libcublasLt.so.13", "nvidia-cublas", "CUDA Toolkit EULA"),
        ("nvidia/cu13/lib/libcufft.so.12", "nvidia-cufft", "CUDA Toolkit EULA"),
        ("torchvision.libs/libnvjpeg.36e11081.so.13", "torchvision", "CUDA Toolkit EULA"),
        ("x.libs/libcudart-1b2c3d4e.so.12.8.90", "x", "CUDA Toolkit EULA"),
        ("nvidia/cudnn/lib/libcudnn_engines_precompiled.so.9", "nvidia-cudnn-cu13", "SDK license agreement, 2.2"),
        ("nvidia/cusparselt/lib/libcusparseLt.so.0", "nvidia-cusparselt-cu13", "SDK license agreement, 2.2"),
        ("nvidia/nvshmem/lib/libnvshmem_host.so.3", "nvidia-nvshmem-cu13", "CUDA Toolkit EULA"),
        ("torch/lib/libtorch_nvshmem.so", "torch", "CUDA Toolkit EULA"),
        ("nvidia_cutlass_dsl/cu13/lib/libcute_dsl_runtime.so", "nvidia-cutlass-dsl-libs-cu13", "CUTLASS DSL"),
    ],
)
def test_licences_that_forbid_a_changed_copy(path: str, distribution: str, clause: str) -> None:
    why = hands_off(path, distribution, SlimPolicy(unproved=True))
    assert why.startswith("licence: ")
    assert clause in why
    assert hands_off(path, distribution, SlimPolicy(unproved=True, licensed=True)) == ""
    assert "not proved" in hands_off(path, distribution, SlimPolicy(licensed=True))


@pytest.mark.parametrize(
    ("path", "distribution"),
    [
        ("torch/lib/libtorch_cuda.so", "torch"),
        ("torch/lib/libtorch_cuda_linalg.so", "torch"),
        ("transformer_engine/wheel_lib/libtransformer_engine.so", "transformer-engine-cu13"),
        ("sgl_kernel/flash_ops.abi3.so", "sglang-kernel"),
        ("nvidia/nccl/lib/libnccl.so.2", "nvidia-nccl-cu13"),
        ("causal_conv1d_cuda.cpython-312-x86_64-linux-gnu.so", "causal-conv1d"),
    ],
)
def test_licences_that_allow_it(path: str, distribution: str) -> None:
    assert hands_off(path, distribution, SlimPolicy(unproved=True)) == ""


def test_without_a_proof_nothing_is_touched() -> None:
    assert "not proved on hardware" in hands_off("nobody/knows.so", "nobody", SlimPolicy())
    assert hands_off("sgl_kernel/sm90/common_ops.abi3.so", "sglang-kernel", SlimPolicy()) == ""


def test_the_shipped_data_loads() -> None:
    assert len(rules().forbidden) >= 4
    assert len(rules().proved) >= 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("schema = 2", "schema 2 is not known"),
        ('schema = 1\n[[forbidden]]\nclause = "1"\nreason = "one two three four"', "names nothing"),
        ('schema = 1\n[[forbidden]]\nnames = ["a"]\nclause = "1"\nreason = "because"', "explains nothing"),
        ('schema = 1\n[[proved]]\nfiles = ["a"]\nlayout = "holes"\nby = "trust me"', "explains nothing"),
        ('schema = 1\n[[proved]]\nfiles = ["a"]\nlayout = "none"\nby = "one two three four"', "layout"),
        ('schema = 1\n[[allowed]]\nfiles = ["a"]', "allowed"),
    ],
)
def test_wrong_data_is_named(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "slim.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=why):
        load_rules(path)
