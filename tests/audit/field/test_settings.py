"""Field reports 20 to 25: caches, file systems, limits and drift, as far as an environment or an image shows them.

What only a launch manifest shows belongs to the checks of manifests: the size of /dev/shm (22: NVIDIA/nccl#342,
NVIDIA/nccl#290, vllm-project/vllm#1710), capabilities that are granted (the other half of 23), one digest for all
containers of a Ray cluster (24: ray-project/ray#44063, ray-project/ray#14915) and digests in place of tags (25:
NVIDIA/nvidia-docker#1030).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit.field.support import BOTH, add, audit, device, environment, fired, image

# --- 20: caches inside

POPULATED = [
    ("flashdreams: extensions named by their source only", "root/.cache/torch_extensions/py312_cu130/ops/ops.so"),
    ("flashinfer-ai/flashinfer#4884", "root/.cache/flashinfer/cached_ops/norm/norm.so"),
    ("vllm-project/vllm#41871", "root/.triton/cache/ABCDEF/kernel.cubin"),
    ("sibling: DeepGEMM", "root/.deep_gemm/cache/kernel.x/kernel.cubin"),
    ("sibling: inductor in the temporary folder", "tmp/torchinductor_root/ab/cab.so"),
    ("sibling: the driver's own", "root/.nv/ComputeCache/1/2/abc"),
]


@pytest.mark.parametrize(("_thread", "path"), POPULATED)
def test_20_populated_cache(tmp_path: Path, _thread: str, path: str) -> None:
    data = device(BOTH) if path.endswith(".so") else b"\x7fELF" + bytes(200)
    found = fired(audit(image(tmp_path, None, {path: data})))
    assert {rule for rule, _subject in found} == {"shipped-cache"}, found


@pytest.mark.parametrize(
    "path", ["root/.cache/torch_extensions/.keep", "root/.cache/fontconfig/a", "opt/data/triton.txt"]
)
def test_20_near_misses(tmp_path: Path, path: str) -> None:
    assert fired(audit(image(tmp_path, None, {path: b""}))) == {}


# --- 20, 21: caches on file systems of many nodes

SHARED = [
    ("pytorch/pytorch#72670", "torch", "TORCH_EXTENSIONS_DIR", "/nfs/team/torch_ext"),
    ("NVIDIA/TensorRT-LLM#11960", "triton", "TRITON_CACHE_DIR", "/lustre/home/cache/triton"),
    ("flashinfer-ai/flashinfer#993", "flashinfer-python", "FLASHINFER_WORKSPACE_BASE", "/mnt/shared"),
    ("sibling: DeepGEMM", "deep-gemm", "DG_JIT_CACHE_DIR", "/gpfs/project/dg"),
    ("sibling: inductor", "torch", "TORCHINDUCTOR_CACHE_DIR", "/shared/inductor"),
]


@pytest.mark.parametrize(("_thread", "dist", "variable", "folder"), SHARED)
def test_21_cache_on_a_network_file_system(tmp_path: Path, _thread: str, dist: str, variable: str, folder: str) -> None:
    env = environment(tmp_path)
    add(env, dist, {f"{dist.replace('-', '_')}_x/__init__.py": b""})
    report = audit(image(tmp_path, env, variables={variable: folder}))
    found = [item for item in report.findings if item.rule == "cache-location" and variable in item.subject]
    assert found, [str(item) for item in report.findings]
    assert all(item.severity != "note" for item in found)


def test_21_near_miss_local_with_architecture(tmp_path: Path) -> None:
    variables = {"TORCH_EXTENSIONS_DIR": "/tmp/cache/torch_extensions", "TRITON_CACHE_DIR": "/tmp/cache/triton"}
    env = environment(tmp_path)
    add(env, "triton-like", {"triton_like/__init__.py": b""})
    assert fired(audit(image(tmp_path, env, variables=variables))) == {}


# --- 23: the user


@pytest.mark.parametrize("user", ["nobody-knows", "ann:nogroup"])
def test_23_user_that_is_not_there(tmp_path: Path, user: str) -> None:
    found = fired(audit(image(tmp_path, User=user)))
    assert found == {("image-user", "USER"): "error"}


# --- 15, 24, 25: what the image says of its content


@pytest.mark.parametrize(
    ("variable", "value"), [("NCCL_VERSION", "2.27.3-1"), ("NV_LIBNCCL_PACKAGE_VERSION", "2.15.5")]
)
def test_25_variable_of_a_base_image_that_moved(tmp_path: Path, variable: str, value: str) -> None:
    """NVIDIA/nvidia-docker#1030: NCCL changed under a fixed tag, and the variable of the older one stayed."""
    from tests.audit.field.test_libraries import NVIDIA, nccl

    env = environment(tmp_path)
    add(env, "nvidia-nccl-cu13", {NVIDIA: nccl("2.28.9")}, version="2.28.9")
    assert fired(audit(image(tmp_path, env, variables={variable: value}))) == {
        ("variable-conflict", variable): "warning"
    }
    assert fired(audit(image(tmp_path, env, variables={variable: "2.28.9-1"}))) == {}


@pytest.mark.parametrize("archs", ["8.0 9.0", "9.0a", "7.5;8.0;8.6"])
def test_3_architecture_list_of_an_image(tmp_path: Path, archs: str) -> None:
    """What is compiled at run time is compiled for this list."""
    env = environment(tmp_path)
    add(env, "ops", {"ops/_c.so": device(BOTH)})
    found = fired(audit(image(tmp_path, env, variables={"TORCH_CUDA_ARCH_LIST": archs})))
    assert ("variable-conflict", "TORCH_CUDA_ARCH_LIST") in found, found
    assert fired(audit(image(tmp_path, env, variables={"TORCH_CUDA_ARCH_LIST": "9.0a;10.0a"}))) == {}
