"""shipped-cache: what a build left behind, wherever it lies; and what only looks like it."""

from __future__ import annotations

import pytest

from orbit.audit.rules import RULES
from orbit.core.findings import Severity
from tests.audit.rules.settings.rootfs import Rootfs, judge_environment, judge_image

RULE = RULES["shipped-cache"]


def test_a_sound_image_is_clean(rootfs: Rootfs) -> None:
    assert judge_image(RULE, rootfs) == []


@pytest.mark.parametrize(
    ("path", "cache", "severity"),
    [
        ("root/.cache/torch_extensions/fused_adam/fused_adam.so", "torch extensions", Severity.ERROR),
        ("root/.deep_gemm/cache/kernel.gemm.0123/kernel.cubin", "DeepGEMM", Severity.ERROR),
        ("home/ann/.cache/flashinfer/cached_ops/norm/norm.so", "flashinfer", Severity.ERROR),
        ("root/.triton/cache/ABCDEF/add_kernel.cubin", "Triton", Severity.WARNING),
        ("tmp/torchinductor_root/ab/cabcd.so", "TorchInductor", Severity.WARNING),
        ("root/.nv/ComputeCache/0/1/data", "the driver's PTX compiler", Severity.WARNING),
        ("tmp/ann/cutlass_python_cache/k.mlir", "CuTe DSL", Severity.WARNING),
        ("root/.tilelang/cache/abc/kernel_lib.so", "tilelang", Severity.WARNING),
        ("root/.cache/tvm-ffi/m_123/m.so", "tvm-ffi", Severity.WARNING),
        ("root/.cache/vllm/torch_compile_cache/x/y", "vLLM", Severity.WARNING),
        ("opt/orbit/.cache/torch_extensions/a.so", "torch extensions", Severity.ERROR),
    ],
)
def test_left_behind(rootfs: Rootfs, path: str, cache: str, severity: Severity) -> None:
    rootfs.write(path, b"code")
    (finding,) = judge_image(RULE, rootfs)
    assert f"a cache of {cache} with 1 compiled file " in finding.message
    assert finding.severity is severity
    assert path.startswith(f"{finding.subject}/")
    assert finding.evidence == {"files": path, "bytes": "4"}


@pytest.mark.parametrize(
    "path",
    [
        "root/.cache/flashinfer/0.6.14/90a/cached_ops/norm/norm.so",
        "root/.cache/flashinfer/0.6.14/90a_100a/cached_ops/norm/norm.so",
        "opt/cache/sm_90a/2.11.0/torch_extensions/a.so",
        "opt/cache/NVIDIA-H100-80GB-HBM3/py312_cu130/torch_extensions/a.so",
    ],
)
def test_a_path_that_names_architecture_and_version(rootfs: Rootfs, path: str) -> None:
    rootfs.write(path, b"code")
    assert judge_image(RULE, rootfs) == []


@pytest.mark.parametrize("path", ["opt/cache/2.11.0/torch_extensions/a.so", "opt/cache/sm_90a/torch_extensions/a.so"])
def test_one_of_the_two_is_not_enough(rootfs: Rootfs, path: str) -> None:
    rootfs.write(path, b"code")
    assert len(judge_image(RULE, rootfs)) == 1


@pytest.mark.parametrize(
    "path",
    [
        "root/.cache/pip/http/a/b",
        "root/.triton/cache/empty.cubin.lock",
        "root/.triton/readme",
        "opt/project/triton/cache.py",
        "usr/share/doc/flashinfer/cache/x.so",
    ],
)
def test_what_only_looks_like_one(rootfs: Rootfs, path: str) -> None:
    rootfs.write(path, b"x")
    assert judge_image(RULE, rootfs) == []


def test_empty_folders_and_installed_code_are_no_caches(rootfs: Rootfs) -> None:
    rootfs.folder("root/.triton/cache")
    rootfs.env.add("flashinfer-jit-cache", {"flashinfer_jit_cache/jit_cache/norm/norm.so": b"aot"})
    rootfs.env.add("odd", {"odd/.cache/torch_extensions/a.so": b"aot"})
    assert judge_image(RULE, rootfs) == []


def test_a_folder_that_a_variable_names(rootfs: Rootfs) -> None:
    rootfs.write("warm/add_kernel.cubin", b"code")
    assert judge_image(RULE, rootfs) == []
    (finding,) = judge_image(RULE, rootfs, {"TRITON_CACHE_DIR": "/warm"})
    assert finding.subject == "warm"


def test_the_identity_of_the_image_is_a_version(rootfs: Rootfs) -> None:
    rootfs.write("cache/0123456789ab/NVIDIA-B200/torch_extensions/a.so", b"code")
    assert len(judge_image(RULE, rootfs)) == 1
    labels = {"io.orbit.environment": "0123456789ab" * 5}
    assert judge_image(RULE, rootfs, labels=labels) == []


def test_many_files_are_one_finding(rootfs: Rootfs) -> None:
    for number in range(9):
        rootfs.write(f"root/.cache/torch_extensions/a/{number}.so", b"code")
    (finding,) = judge_image(RULE, rootfs)
    assert finding.message.startswith("a cache of torch extensions with 9 compiled files")
    assert finding.evidence["files"].endswith(", ...")


def test_inside_an_environment(rootfs: Rootfs) -> None:
    assert judge_environment(RULE, rootfs.env) == []
    rootfs.write("opt/orbit/.triton/cache/A/add.cubin", b"code")
    (finding,) = judge_environment(RULE, rootfs.env)
    assert finding.subject == ".triton/cache"
