"""Packages of an environment: each fault from made-up facts, and its near miss."""

from __future__ import annotations

from typing import Any

import pytest

from orbit.doctor.detect import DETECTORS
from orbit.doctor.facts import Facts, Prefix


def found(detector: str, **values: Any) -> list[str]:
    prefix = Prefix(path="/env", site="/env/lib/python3.12/site-packages", **values)
    return [seen.message for seen in DETECTORS[detector](Facts(prefix=prefix))]


BROKEN: list[tuple[str, dict[str, Any], str]] = [
    ("both_kernel_names", {"packages": {"sgl-kernel": "0.3.21", "sglang-kernel": "0.4.5"}}, "0.3.21"),
    ("kernels_below_sglang", {"packages": {"sglang": "0.5.16", "sgl-kernel": "0.3.21"}}, "needs sglang-kernel"),
    ("sglang_too_old", {"packages": {"sglang": "0.5.9"}}, "0.5.9"),
    ("nccl_below_deep_ep", {"packages": {"deep-ep": "2.0.0", "nvidia-nccl-cu13": "2.28.9"}}, "2.28.9"),
    ("sets_differ", {"packages": {"flashinfer-python": "0.6.3", "flashinfer-cubin": "0.6.14"}}, "flashinfer-cubin"),
    ("stub_versions", {"packages": {"emerging-optimizers": "999.9.9"}}, "placeholder"),
    ("dangling_links", {"num_dangling": 9, "dangling": ("torch/a.py",)}, "9 links"),
    ("dangling_links", {"hollow": ("torch",)}, "torch"),
    ("prefix_on_network", {"remote": True, "file_system": "lustre"}, "lustre"),
    ("unreachable_interpreter", {"python_problem": "leads to /x/python3.12"}, "leads to"),
    ("helpers_never_built", {"packages": {"megatron-core": "0.18.2"}}, "helpers_cpp"),
    ("post_training_missing", {"packages": {"megatron-core": "0.18.2", "nvidia-modelopt": "0.44.0"}}, "post_training"),
    ("z3_missing", {"packages": {"tilelang": "0.1.11"}}, "libz3"),
    ("cudnn_names", {"num_cudnn": 3}, "3 files"),
    ("two_cuda_majors", {"packages": {"nvidia-cublas-cu12": "12.8", "nvidia-cuda-runtime": "13.0.96"}}, "CUDA 12"),
    ("two_nccls", {"packages": {"nvidia-nccl-cu12": "2.29.3", "nvidia-nccl-cu13": "2.29.7"}}, "2.29.3 and 2.29.7"),
    ("two_nccls", {"nccl_files": ("nvidia/nccl/lib/libnccl.so.2", "nvidia/cu13/lib/libnccl.so.2")}, "2 times"),
]
WELL: list[tuple[str, dict[str, Any]]] = [
    ("both_kernel_names", {"packages": {"sglang-kernel": "0.4.5"}}),
    ("kernels_below_sglang", {"packages": {"sglang": "0.5.9", "sgl-kernel": "0.3.21"}}),
    ("sglang_too_old", {"packages": {"sglang": "0.5.16.post1"}}),
    ("sglang_too_old", {"packages": {"sglang": "0.0.0.dev15484+g51845dc4a"}}),
    ("sglang_too_old", {"packages": {"sglang": "no version at all"}}),
    ("nccl_below_deep_ep", {"packages": {"nvidia-nccl-cu13": "2.28.9"}}),
    ("nccl_below_deep_ep", {"packages": {"deep-ep": "2.0.0", "nvidia-nccl-cu13": "2.30.4"}}),
    ("sets_differ", {"packages": {"flashinfer-python": "0.6.14", "flashinfer-jit-cache": "0.6.14+cu130"}}),
    ("stub_versions", {"packages": {"emerging-optimizers": "0.1.0", "x": "9990"}}),
    ("dangling_links", {}),
    ("prefix_on_network", {"file_system": "ext4"}),
    ("unreachable_interpreter", {"python": "/usr/bin/python3.12"}),
    ("helpers_never_built", {"packages": {"megatron-core": "0.18.2"}, "helpers": True}),
    ("helpers_never_built", {}),
    ("post_training_missing", {"packages": {"megatron-core": "0.18.2"}}),
    ("z3_missing", {"packages": {"tilelang": "0.1.11"}, "z3_library": True}),
    ("cudnn_names", {"num_cudnn": 1}),
    ("two_cuda_majors", {"packages": {"nvidia-cublas": "13.4", "nvidia-cutlass-dsl-libs-cu12": "4.6.2",
                                      "nvidia-cuda-runtime": "13.0.96"}}),
    ("two_nccls", {"packages": {"nvidia-nccl-cu13": "2.29.7"}, "nccl_files": ("nvidia/nccl/lib/libnccl.so.2",)}),
]  # fmt: skip


@pytest.mark.parametrize(("detector", "values", "word"), BROKEN)
def test_it_is_seen(detector: str, values: dict[str, Any], word: str) -> None:
    (message,) = found(detector, **values)
    assert word in message


@pytest.mark.parametrize(("detector", "values"), WELL)
def test_its_near_miss_is_not(detector: str, values: dict[str, Any]) -> None:
    assert found(detector, **values) == []


@pytest.mark.parametrize("detector", sorted(DETECTORS))
def test_without_facts_nothing_is_seen(detector: str) -> None:
    assert list(DETECTORS[detector](Facts())) == []
