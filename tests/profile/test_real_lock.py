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
from orbit.profile.policy import load_policy
from orbit.profile.rules import Facts, run_rules
from tests.profile.locks import SHA, WHERE, package, wheel


@functools.cache
def real_text() -> str:
    return (checkout_root() / "uv.lock").read_text()


def judge(text: str, profile: Profile) -> list[tuple[str, str]]:
    root = checkout_root()
    facts = Facts(
        lock=parse_lock(text.encode(), WHERE),
        policy=load_policy(root),
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
