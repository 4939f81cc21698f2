"""What the packages of an environment show: versions that do not fit, parts that are missing, links that dangle."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from packaging.version import InvalidVersion, Version

from orbit.doctor.detect.seen import Seen, likely, possible
from orbit.doctor.facts import Facts

SGLANG_LINE = Version("0.5.16")
"""The first SGLang whose arguments the trainer mirrors, and the first with kernels called sglang-kernel."""
NCCL_FOR_DEEP_EP = Version("2.30")
STUB = re.compile(r"^999\b")
SETS = (
    ("flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache"),
    ("nvidia-cutlass-dsl", "nvidia-cutlass-dsl-libs-base", "nvidia-cutlass-dsl-libs-core",
     "nvidia-cutlass-dsl-libs-cu12", "nvidia-cutlass-dsl-libs-cu13"),
    ("transformer-engine", "transformer-engine-cu12", "transformer-engine-cu13", "transformer-engine-torch"),
)  # fmt: skip
"""Packages that are released together and must have one version (a part behind + does not count)."""


def both_kernel_names(facts: Facts) -> Iterator[Seen]:
    """sgl-kernel and sglang-kernel, which own the same files."""
    packages = _packages(facts)
    if {"sgl-kernel", "sglang-kernel"} <= packages.keys():
        yield Seen(f"sgl-kernel {packages['sgl-kernel']} and sglang-kernel {packages['sglang-kernel']} are installed")


def kernels_below_sglang(facts: Facts) -> Iterator[Seen]:
    """The old kernels beside a new SGLang."""
    packages = _packages(facts)
    sglang = _version(packages.get("sglang", ""))
    if sglang and sglang >= SGLANG_LINE and "sgl-kernel" in packages and "sglang-kernel" not in packages:
        yield Seen(f"sglang {packages['sglang']} with sgl-kernel {packages['sgl-kernel']}; it needs sglang-kernel")


def sglang_too_old(facts: Facts) -> Iterator[Seen]:
    """An SGLang before the line that the trainer mirrors. Development versions (0.0.0.dev...) say nothing."""
    text = _packages(facts).get("sglang", "")
    found = _version(text)
    if found and Version("0.0.1") < found < SGLANG_LINE:
        yield likely(f"sglang {text} is installed; the trainer mirrors the arguments of {SGLANG_LINE} and newer")


def nccl_below_deep_ep(facts: Facts) -> Iterator[Seen]:
    """An NCCL that torch's metadata brought back."""
    packages = _packages(facts)
    for name in ("nvidia-nccl-cu12", "nvidia-nccl-cu13"):
        found = _version(packages.get(name, ""))
        if found and found < NCCL_FOR_DEEP_EP and {"deep-ep", "deep_ep"} & packages.keys():
            yield Seen(f"{name} {found} is installed; deep-ep needs {NCCL_FOR_DEEP_EP}")


def sets_differ(facts: Facts) -> Iterator[Seen]:
    """Members of one set in several versions."""
    packages = _packages(facts)
    for members in SETS:
        there = {name: packages[name].partition("+")[0] for name in members if name in packages}
        if len(set(there.values())) > 1:
            yield Seen(", ".join(f"{name} {version}" for name, version in there.items()))


def stub_versions(facts: Facts) -> Iterator[Seen]:
    """A placeholder of an index."""
    for name, version in _packages(facts).items():
        if STUB.match(version):
            yield Seen(f"{name} {version} is a placeholder")


def dangling_links(facts: Facts) -> Iterator[Seen]:
    """Links without target, packages without their first file."""
    prefix = facts.prefix
    if prefix and prefix.num_dangling:
        shown = ", ".join(prefix.dangling[:3])
        yield Seen(f"{prefix.num_dangling} links lead nowhere in the first two levels of {prefix.site}: {shown}, ...")
    if prefix and prefix.hollow:
        shown = ", ".join(prefix.hollow[:4])
        yield Seen(f"{len(prefix.hollow)} packages have lost their __init__.py and import without an error: {shown}")


def prefix_on_network(facts: Facts) -> Iterator[Seen]:
    """An environment that every node reads over the network."""
    if facts.prefix and facts.prefix.remote:
        yield possible(f"{facts.prefix.path} is on {facts.prefix.file_system}")


def unreachable_interpreter(facts: Facts) -> Iterator[Seen]:
    """bin/python leads to where this user may not go, or nowhere."""
    if facts.prefix and facts.prefix.python_problem:
        yield Seen(f"{facts.prefix.path}/bin/python: {facts.prefix.python_problem}")


def helpers_never_built(facts: Facts) -> Iterator[Seen]:
    """Megatron's data sets without their compiled part."""
    if facts.prefix and "megatron-core" in facts.prefix.packages and not facts.prefix.helpers:
        yield Seen("megatron/core/datasets/helpers_cpp*.so is not there")


def post_training_missing(facts: Facts) -> Iterator[Seen]:
    """modelopt makes Megatron import what its package leaves out."""
    packages = _packages(facts)
    if facts.prefix and {"megatron-core", "nvidia-modelopt"} <= packages.keys() and not facts.prefix.post_training:
        yield likely(f"nvidia-modelopt {packages['nvidia-modelopt']} is installed, megatron/post_training is not")


def z3_missing(facts: Facts) -> Iterator[Seen]:
    """tilelang without the library that its TVM links."""
    packages = _packages(facts)
    if facts.prefix and "tilelang" in packages and not facts.prefix.z3_library:
        yield Seen(f"tilelang {packages['tilelang']} is installed, and z3/lib/libz3.so* is not there")


def cudnn_names(facts: Facts) -> Iterator[Seen]:
    """cudnn's Python package wants to find one file."""
    if facts.prefix and facts.prefix.num_cudnn > 1:
        yield Seen(f"{facts.prefix.num_cudnn} files match nvidia/cudnn/lib/libcudnn.so.*[0-9], one is expected")


def two_cuda_majors(facts: Facts) -> Iterator[Seen]:
    """Runtimes of two major releases in one environment."""
    packages = _packages(facts)
    twelve = sorted(name for name in packages if name.startswith("nvidia-") and name.endswith("-cu12"))
    runtime = packages.get("nvidia-cuda-runtime", "")
    thirteen = sorted(name for name in packages if name.startswith("nvidia-") and name.endswith("-cu13"))
    if runtime.startswith("13."):
        thirteen.append("nvidia-cuda-runtime")
    parts = [name for name in twelve if not name.startswith("nvidia-cutlass-dsl")]
    if parts and thirteen:
        yield likely(f"for CUDA 12: {', '.join(parts[:4])}; for CUDA 13: {', '.join(thirteen[:4])}")


def two_nccls(facts: Facts) -> Iterator[Seen]:
    """NCCL from two packages, or two files of it."""
    packages = _packages(facts)
    if {"nvidia-nccl-cu12", "nvidia-nccl-cu13"} <= packages.keys():
        versions = f"{packages['nvidia-nccl-cu12']} and {packages['nvidia-nccl-cu13']}"
        yield Seen(f"nvidia-nccl-cu12 and nvidia-nccl-cu13 are installed, {versions}: both write nvidia/nccl")
    elif facts.prefix and len(facts.prefix.nccl_files) > 1:
        yield Seen(f"libnccl.so.2 is there {len(facts.prefix.nccl_files)} times: {', '.join(facts.prefix.nccl_files)}")


def _packages(facts: Facts) -> Mapping[str, str]:
    return facts.prefix.packages if facts.prefix else {}


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None
