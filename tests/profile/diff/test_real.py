"""The two shipped locks: every drift is there, with what follows from it."""

from __future__ import annotations

import functools

from orbit.cli.lock.diff import view_of
from orbit.profile.diff.records import LockDiff
from tests.profile.diff.sides import change, diff, follows, kinds

SPEC_CLASSES = {
    "driver", "compiler", "namespaces", "collectives", "transformers", "sglang", "torch-abi", "torch-bound",
    "recompile", "verify", "cudnn", "cublas", "hub", "engine-kernels", "flashinfer-binaries", "deep-gemm", "triton",
    "cutlass-dsl", "torchao", "cuda-python", "download", "python-only", "binaries", "transformer-engine",
}  # fmt: skip


@functools.cache
def real() -> LockDiff:
    return diff(view_of("cu130", "cu130"), view_of("cu128", "cu130"))


def test_every_package_that_differs_is_there_with_a_consequence() -> None:
    found = real()
    a, b = view_of("cu130", "cu130").packages, view_of("cu128", "cu130").packages
    named = {change.name for change in found.changes} | {change.was for change in found.changes}
    assert {name for name in a if name not in b} <= named
    assert {name for name in b if name not in a} <= named
    assert {name for name in a.keys() & b.keys() if a[name][0].version != b[name][0].version} <= named
    assert [change.name for change in found.changes if not change.consequences] == []
    assert found.unchanged + sum(change.kind != "removed" for change in found.changes) == len(b)


def test_the_known_classes_of_drift_follow() -> None:
    assert {each.id for each in real().consequences} >= SPEC_CLASSES
    weights = [each.weight for each in real().consequences]
    assert weights == sorted(weights, key=["stops", "rebuild", "check", "note"].index)


def test_renamed_distributions_are_one_change() -> None:
    found = real()
    assert change(found, "sgl-kernel").was == "sglang-kernel"
    assert change(found, "nvidia-cublas-cu12").was == "nvidia-cublas"
    assert change(found, "nvidia-nccl-cu12").was == "nvidia-nccl-cu13"
    assert change(found, "transformer-engine-cu12").was == "transformer-engine-cu13"
    assert kinds(found)["transformers"] == "moved"


def test_the_driver_and_what_is_rebuilt() -> None:
    found = real()
    driver = follows(found, "driver")
    assert driver is not None
    assert "CUDA 13.0 -> 12.8" in driver.lines
    rebuilt = follows(found, "recompile")
    assert rebuilt is not None
    assert any(line.startswith("transformer-engine-torch 2.14.0: another build environment") for line in rebuilt.lines)


def test_a_profile_against_itself_is_equal() -> None:
    assert diff(view_of("cu128", "cu130"), view_of("cu128", "cu130")).equal


def test_there_and_back_change_the_same_packages() -> None:
    back = diff(view_of("cu128", "cu130"), view_of("cu130", "cu130"))
    there = {frozenset((each.name, each.was or each.name)) for each in real().changes}
    assert {frozenset((each.name, each.was or each.name)) for each in back.changes} == there
