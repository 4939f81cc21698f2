"""What is taken from elsewhere: from made-up facts."""

from __future__ import annotations

from typing import Any

import pytest

from orbit.doctor.catalog import Certainty
from orbit.doctor.detect import DETECTORS
from orbit.doctor.facts import Cached, Facts, Prefix

PREFIX = Prefix(path="/env", site="/s", packages={"sgl-deep-gemm": "0.1.4", "nvidia-cuda-runtime": "13.0.96"})
BOTH = Prefix(path="/env", site="/s", packages={"nvidia-cuda-runtime": "13.0", "nvidia-cuda-runtime-cu12": "12.8"})
TWELVE = Prefix(path="/env", site="/s", packages={"nvidia-cuda-runtime-cu12": "12.8.90"})
OLD = Cached(path="/home/ann/.cache/flashinfer/a.so", needed=("libcudart.so.12", "libc.so.6"))


def seen(detector: str, **values: Any) -> list[tuple[str, Certainty]]:
    return [(each.message, each.certainty) for each in DETECTORS[detector](Facts(**values))]


@pytest.mark.parametrize(
    ("detector", "values", "word", "sure"),
    [
        ("cuda_home_unset", {"prefix": PREFIX}, "sgl-deep-gemm cannot be imported", Certainty.CERTAIN),
        ("another_environment_active", {"prefix": PREFIX, "variables": {"VIRTUAL_ENV": "/other"}}, "/other",
         Certainty.POSSIBLE),
        ("foreign_libraries_first", {"foreign": {"/usr/local/cuda/lib64": ("libcudnn.so.9",)}}, "libcudnn.so.9",
         Certainty.CERTAIN),
        ("compat_libcuda_first", {"compat": ("/usr/local/cuda/compat",)}, "compat", Certainty.LIKELY),
        ("python_path_shadows", {"shadows": {"/src": ("sglang", "torch")}}, "sglang, torch", Certainty.LIKELY),
        ("compiled_for_other_cuda", {"prefix": PREFIX, "cached": (OLD,)}, "libcudart.so.12", Certainty.CERTAIN),
    ],
)  # fmt: skip
def test_it_is_seen(detector: str, values: dict[str, Any], word: str, sure: Certainty) -> None:
    ((message, certainty),) = seen(detector, **values)
    assert word in message
    assert certainty is sure


@pytest.mark.parametrize(
    ("detector", "values"),
    [
        ("cuda_home_unset", {"prefix": PREFIX, "variables": {"CUDA_HOME": "/env/cuda"}}),
        ("cuda_home_unset", {"prefix": PREFIX, "toolkit": True}),
        ("cuda_home_unset", {"prefix": TWELVE}),
        ("another_environment_active", {"prefix": PREFIX, "variables": {"VIRTUAL_ENV": "/env/"}}),
        ("compiled_for_other_cuda", {"prefix": TWELVE, "cached": (OLD,)}),
        ("compiled_for_other_cuda", {"prefix": BOTH, "cached": (OLD,)}),
        ("compiled_for_other_cuda", {"cached": (OLD,)}),
    ],
)
def test_its_near_miss_is_not(detector: str, values: dict[str, Any]) -> None:
    assert seen(detector, **values) == []
