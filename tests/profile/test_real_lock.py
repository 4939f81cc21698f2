"""The shipped lock is clean for every profile, and each real defect put back into it gives exactly its finding."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

import pytest

from orbit.core.paths import checkout_root
from orbit.profile.check import check_lock
from orbit.profile.lock import parse_lock
from orbit.profile.model import Profile, load_profile, profile_names
from orbit.profile.place import lock_path
from orbit.profile.policy import load_policy
from orbit.profile.rules import Facts, run_rules
from tests.profile.locks import SHA, WHERE, package, wheel


@functools.cache
def real_text(profile: str = "cu130") -> str:
    return lock_path(load_profile(profile), checkout_root()).read_text()


def judge(text: str, profile: Profile) -> list[tuple[str, str]]:
    root = checkout_root()
    facts = Facts(
        lock=parse_lock(text.encode(), WHERE),
        policy=load_policy(root, profile.policies),
        profile=profile,
        recipes=frozenset(path.stem for path in (root / "kernels" / "recipes").glob("*.toml")),
    )
    return [(finding.rule, finding.subject) for finding in run_rules(facts)]


def version(name: str, new: str) -> Callable[[str], str]:
    def edit(text: str) -> str:
        pattern = rf'(\[\[package\]\]\nname = "{re.escape(name)}"\nversion = )"[^"]+"'
        changed, count = re.subn(pattern, rf'\g<1>"{new}"', text)
        assert count == 1
        return changed

    return edit


def replace(old: str, new: str, times: int = 1) -> Callable[[str], str]:
    def edit(text: str) -> str:
        assert text.count(old) == times
        return text.replace(old, new)

    return edit


def add(name: str, number: str) -> Callable[[str], str]:
    index = re.search(r'source = \{ (registry = "[^"]+") \}', real_text())
    assert index is not None
    block = package(name, number, source=index[1], wheels=[wheel(name, number)])
    return lambda text: f"{text}\n{block}"


def needs(name: str, number: str) -> Callable[[str], str]:
    """Add a package and make the extra ``stack`` require it."""
    return lambda text: add(name, number)(text).replace(
        "\nstack = [\n", f'\nstack = [\n    {{ name = "{name}" }},\n', 1
    )


def without_hash(text: str) -> str:
    changed, count = re.subn(r'(torch-2\.11\.0-cp312-cp312-manylinux_2_28_x86_64\.whl"), hash = "[^"]+"', r"\1", text)
    assert count == 1
    return changed


@pytest.mark.parametrize("name", profile_names())
def test_the_shipped_lock_is_clean(name: str) -> None:
    report = check_lock(load_profile(name), checkout_root())
    assert report.findings == ()
    assert report.clean
    assert report.packages >= 10
    assert report.download_bytes > 1_000_000


MUTATIONS = {
    "cublas of CUDA 13.0 itself, without the symbol": (
        version("nvidia-cublas", "13.1.0.3"),
        ("lock-cuda-release", "nvidia-cublas"),
    ),
    "nvcc newer than the runtime": (version("nvidia-cuda-nvcc", "13.5.37"), ("lock-cuda-release", "nvidia-cuda-nvcc")),
    "nvcc and crt of one release, but not the same": (
        version("nvidia-cuda-crt", "13.0.48"),
        ("lock-family", "cuda-compiler"),
    ),
    "runtime of the next release": (
        version("nvidia-cuda-runtime", "13.1.80"),
        ("lock-cuda-release", "nvidia-cuda-runtime"),
    ),
    "the stub that resolvers prefer": (
        version("emerging-optimizers", "999.9.9"),
        ("lock-source", "emerging-optimizers"),
    ),
    "deep-ep from the index": (add("deep-ep", "1.0.0"), ("lock-source", "deep-ep")),
    "deep-gemm from the index": (add("deep-gemm", "1.0.0"), ("lock-source", "deep-gemm")),
    "hollow sdist": (add("fast-hadamard-transform", "1.1.0"), ("lock-source", "fast-hadamard-transform")),
    "the old name of sglang-kernel": (add("sgl-kernel", "0.3.21"), ("lock-source", "sgl-kernel")),
    "megatron-bridge": (add("megatron-bridge", "0.5.1"), ("lock-source", "megatron-bridge")),
    "somebody else's orbit-probe": (add("orbit-probe", "1.0"), ("lock-source", "orbit-probe")),
    "TransformerEngine's libraries of another version": (
        version("transformer-engine-cu13", "2.13.0"),
        ("lock-family", "transformer-engine"),
    ),
    "TransformerEngine without its torch part": (
        replace('{ name = "transformer-engine", extra = ["pytorch"] }', '{ name = "transformer-engine" }'),
        ("lock-family", "transformer-engine"),
    ),
    "libraries of the DSL of another version": (
        version("nvidia-cutlass-dsl-libs-cu13", "4.5.0"),
        ("lock-family", "cutlass-dsl"),
    ),
    "flashinfer binaries of another version": (needs("flashinfer-cubin", "0.6.3"), ("lock-family", "flashinfer")),
    "torchvision for another torch": (version("torchvision", "0.25.0"), ("lock-family", "torch")),
    "kernels for another sglang": (version("sglang-kernel", "0.4.6"), ("lock-family", "sglang")),
    "a CUDA part nobody has judged": (
        needs("nvidia-cuda-novelty", "13.0.1"),
        ("lock-cuda-release", "nvidia-cuda-novelty"),
    ),
    "a CUDA 12 build": (needs("flashy-cu12", "1.0"), ("lock-cuda-release", "flashy-cu12")),
    "a wheel without sha256": (without_hash, ("lock-hash", "torch")),
    "an override without a reason": (
        replace("overrides = [", 'overrides = [ { name = "numpy", specifier = "==2.3.5" },'),
        ("lock-reason", "numpy"),
    ),
    "a reason without its override": (
        replace('    { name = "nvidia-nvvm", specifier = "==13.0.88" },\n', ""),
        ("lock-reason", "nvidia-nvvm"),
    ),
    "a lock for another Python": (
        replace('requires-python = "==3.12.*"', 'requires-python = ">=3.13"'),
        ("lock-python", "cu130"),
    ),
}


@pytest.mark.parametrize("what", MUTATIONS)
def test_a_real_defect_gives_exactly_its_finding(what: str) -> None:
    edit, finding = MUTATIONS[what]
    assert judge(edit(real_text()), load_profile("cu130")) == [finding]


def test_the_compiler_is_judged_for_the_small_profile_too_and_cublas_is_not() -> None:
    probe = load_profile("probe")
    assert judge(version("nvidia-cuda-nvcc", "13.5.37")(real_text()), probe) == [
        ("lock-cuda-release", "nvidia-cuda-nvcc")
    ]
    assert judge(version("nvidia-cublas", "13.1.0.3")(real_text()), probe) == []


def test_a_source_build_without_recipe() -> None:
    index = re.search(r'source = \{ (registry = "[^"]+") \}', real_text())
    assert index is not None
    sdist = f'{{ url = "https://files.test/novelty-1.0.tar.gz", hash = "{SHA}", size = 1 }}'
    block = package("novelty", "1.0", source=index[1], wheels=[], sdist=sdist)
    text = f"{real_text()}\n{block}".replace("\nstack = [\n", '\nstack = [\n    { name = "novelty" },\n', 1)
    assert judge(text, load_profile("cu130")) == [("lock-wheel", "novelty")]


CU128_MUTATIONS = {
    "cuBLAS of the next release": (
        version("nvidia-cublas-cu12", "12.9.1.4"),
        ("lock-cuda-release", "nvidia-cublas-cu12"),
    ),
    "the compiler's parts of the next release": (
        version("nvidia-cuda-nvcc-cu12", "12.9.86"),
        ("lock-cuda-release", "nvidia-cuda-nvcc-cu12"),
    ),
    "kernels for another sglang": (version("sgl-kernel", "0.3.20"), ("lock-source", "sgl-kernel")),
    "torchvision for another torch": (version("torchvision", "0.26.0"), ("lock-family", "torch")),
    "TransformerEngine's libraries of another version": (
        version("transformer-engine-cu12", "2.13.0"),
        ("lock-family", "transformer-engine"),
    ),
    "flashinfer binaries of another version": (version("flashinfer-cubin", "0.6.4"), ("lock-family", "flashinfer")),
    "the override against the CUDA 13 half is lost": (
        replace('    { name = "transformer-engine-cu13", marker = "sys_platform == \'never\'" },\n', ""),
        ("lock-reason", "transformer-engine-cu13"),
    ),
    "the override against the newest NumPy is lost": (
        replace('{ name = "numpy", marker = "extra == \'stack\'", specifier = "<2.4" }',
                '{ name = "numpy", marker = "extra == \'stack\'" }'),
        ("lock-reason", "numpy"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CU128_MUTATIONS)
def test_a_defect_of_the_cuda_12_lock_gives_exactly_its_finding(what: str) -> None:
    edit, finding = CU128_MUTATIONS[what]
    found = judge(edit(real_text("cu128")), load_profile("cu128"))
    assert finding in found
    assert {rule for rule, _ in found} <= {finding[0], "lock-family"}  # a kernel off its version is off its family too


@pytest.mark.parametrize("name", ["transformer-engine-cu13", "nvidia-cuda-nvcc", "sglang-kernel", "sgl-deep-gemm"])
def test_parts_of_cuda_13_must_not_be_in_the_cuda_12_lock(name: str) -> None:
    block = re.search(rf'\[\[package\]\]\nname = "{name}"\n.*?(?=\[\[package\]\]|\Z)', real_text(), re.DOTALL)
    assert block is not None
    found = judge(f"{real_text('cu128')}\n{block[0]}", load_profile("cu128"))
    assert found == [("lock-source", name)]


def test_each_lock_is_judged_by_its_own_policy_and_not_by_the_other() -> None:
    rules = {rule for rule, _ in judge(real_text("cu128"), load_profile("cu130"))}
    assert {"lock-cuda-release", "lock-source", "lock-reason"} <= rules
