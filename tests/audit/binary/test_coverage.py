"""What a target loads of a container and of a file: machine code, PTX for the driver's compiler, or nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orbit.audit.binary.coverage import (
    RESULTS,
    Result,
    arch_counts,
    count_results,
    feature_of,
    file_result,
    result_of,
    results_of,
)
from orbit.audit.binary.fatbin import Container, walk_section
from tests.writers.fatbin import write_container, write_section

ARCHS = [
    "sm_80", "sm_86", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103a", "sm_120",
    "compute_80", "compute_90", "compute_90a", "compute_100", "compute_120", "lto_90", "sm_x",
]  # fmt: skip
CAPABILITIES = ["9.0", "10.0", "10.3", "12.0"]


def containers(*images: tuple[str, ...]) -> list[Container]:
    data = write_section(*(write_container(*archs) for archs in images))
    return list(walk_section(data, 0, len(data), ".nv_fatbin", "x"))


@pytest.mark.parametrize(
    ("archs", "capability", "result"),
    [
        ({"sm_90"}, "9.0", "sass"),
        ({"sm_90a"}, "9.0", "sass"),
        ({"sm_90a"}, "10.0", "none"),
        ({"sm_90"}, "10.0", "none"),
        ({"sm_80"}, "8.6", "sass"),
        ({"sm_86"}, "8.0", "none"),
        ({"sm_100f"}, "10.3", "sass"),
        ({"sm_100a"}, "10.3", "none"),
        ({"sm_100f"}, "12.0", "none"),
        ({"compute_90"}, "9.0", "ptx-jit"),
        ({"compute_90"}, "10.0", "ptx-jit"),
        ({"compute_90a"}, "10.0", "none"),
        ({"compute_100"}, "9.0", "none"),
        ({"sm_90", "compute_90"}, "9.0", "sass"),
        ({"sm_80", "compute_80"}, "9.0", "ptx-jit"),
        ({"lto_90"}, "9.0", "none"),
        (set(), "9.0", "none"),
        ({"sm_x", "compute_", "sm_9"}, "9.0", "none"),
        ({"sm_x", "sm_90"}, "9.0", "sass"),
    ],
)
def test_result_of_one_container(archs: set[str], capability: str, result: Result) -> None:
    assert result_of(frozenset(archs), capability) == result


@given(st.frozensets(st.sampled_from(ARCHS)), st.sampled_from(ARCHS), st.sampled_from(CAPABILITIES))
def test_one_more_image_never_makes_it_worse(archs: frozenset[str], more: str, capability: str) -> None:
    before, after = result_of(archs, capability), result_of(archs | {more}, capability)
    assert RESULTS.index(after) <= RESULTS.index(before)


def test_registering_files_count_each_container_and_dispatching_files_count_once() -> None:
    found = containers(("sm_90a",), ("sm_100a",), ("sm_90a", "sm_100a"), ("sm_80", "compute_80"), ())
    assert dict(count_results(found, "9.0")) == {"sass": 2, "ptx-jit": 1, "none": 2}
    assert dict(count_results(found, "12.0")) == {"ptx-jit": 1, "none": 4}
    assert (file_result(found, "9.0"), file_result(found, "12.0")) == ("sass", "ptx-jit")
    assert file_result(found[:3], "12.0") == "none"
    assert count_results(found, "9.0")["sass"] + count_results([], "9.0")["sass"] == 2


def test_ptx_is_enough_in_what_is_linked_before_it_is_loaded() -> None:
    """libnvshmem_host.so: nvlink compiles the PTX of a relocatable object into the image for the target."""
    loose = [replace(box, section="__nv_relfatbin") for box in containers(("sm_90", "compute_90"), ("sm_90",))]
    (linked,) = containers(("sm_90", "sm_100"))
    assert results_of([*loose, linked], "10.0") == ["sass", "none", "sass"]
    assert results_of(loose, "10.0") == ["ptx-jit", "none"]
    assert results_of([*loose, *containers(("sm_90", "compute_90"))], "10.0") == ["ptx-jit", "none", "ptx-jit"]


@pytest.mark.parametrize(
    ("loose", "final", "results"),
    [
        # as an H200 does it: tests/gpu/loading_truth.py
        ([("sm_80", "sm_90")], [("sm_80",)], ["sass", "sass"]),
        ([("sm_80", "sm_90"), ("sm_80", "sm_90")], [("sm_80",)], ["sass", "sass", "sass"]),
        ([("sm_80", "compute_80")], [("sm_80",)], ["ptx-jit", "ptx-jit"]),
        ([("compute_80",)], [()], ["ptx-jit", "ptx-jit"]),
        ([("sm_80", "sm_90"), ("sm_80", "compute_80")], [("sm_80",)], ["ptx-jit", "ptx-jit", "ptx-jit"]),
        ([("sm_80", "sm_90"), ("sm_80", "compute_80")], [("sm_90",)], ["sass", "sass", "sass"]),
        ([("sm_80", "sm_90"), ("sm_80",)], [("sm_80",)], ["sass", "none", "sass"]),
        ([("sm_80", "sm_90"), ("sm_80",)], [("sm_90",)], ["sass", "none", "sass"]),
        ([("sm_80",)], [("sm_80",)], ["none", "none"]),
        ([("sm_100a", "compute_100")], [("sm_100a",)], ["none", "none"]),
        ([("lto_90",)], [("sm_90",)], ["sass", "sass"]),
        ([("lto_80",)], [("sm_90",)], ["sass", "sass"]),
        ([("lto_80",)], [("sm_80",)], ["none", "none"]),
        ([("lto_100",)], [("sm_90",)], ["none", "sass"]),
        # which of two is the linked one cannot be told, so what one of them lacks is said
        ([("sm_80", "sm_90")], [("sm_80",), ("sm_80",)], ["sass", "none", "none"]),
        ([("sm_80", "sm_90")], [("sm_80",), ("sm_90",)], ["sass", "none", "sass"]),
    ],
)
def test_relocatable_code_is_linked_by_nvlink_or_by_the_driver(
    loose: list[tuple[str, ...]], final: list[tuple[str, ...]], results: list[Result]
) -> None:
    boxes = [replace(box, section="__nv_relfatbin") for box in containers(*loose)]
    assert results_of([*boxes, *containers(*final)], "9.0") == results


def test_file_without_containers() -> None:
    assert file_result([], "9.0") == "none"
    assert sum(count_results([], "9.0").values()) == 0
    assert arch_counts([]) == {}


def test_images_are_counted_by_architecture_in_order_of_name() -> None:
    found = containers(("sm_90a", "compute_90"), ("sm_90a",), ("sm_100f", "sm_100f"))
    assert list(arch_counts(found).items()) == [("compute_90", 1), ("sm_100f", 2), ("sm_90a", 2)]


@pytest.mark.parametrize(
    ("archs", "capability", "feature"),
    [
        ({"sm_90", "sm_90a"}, "9.0", "sm_90a"),
        ({"sm_90"}, "9.0", ""),
        ({"sm_90a"}, "10.0", ""),
        ({"sm_100a", "sm_100f"}, "10.0", "sm_100a"),
        ({"sm_100a", "sm_100f"}, "10.3", "sm_100f"),
        ({"sm_103a", "sm_100"}, "10.0", ""),
        ({"compute_90a"}, "9.0", ""),
    ],
)
def test_code_with_a_devices_own_instructions(archs: set[str], capability: str, feature: str) -> None:
    assert feature_of(frozenset(archs), capability) == feature
