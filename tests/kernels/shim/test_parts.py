"""orbit.kernels.shim.parts: every step has exactly one machine, and what is not ours is empty."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orbit.kernels.shim.config import Config
from orbit.kernels.shim.parts import archs_of, empty_module, has_whole, is_ours
from orbit.kernels.shim.places import PROBE
from tests.kernels.shim.farm import settings

SOURCES = st.text(alphabet="abc/._", min_size=1, max_size=12)
ARCHS = st.sampled_from(["sm_90a", "sm_100a", ""])


def of(archs: list[str], index: int = 1, count: int = 1) -> Config:
    more: dict[str, Any] = {"part": {"archs": archs, "index": index, "count": count}}
    return settings(Path("/b"), **more)


@given(SOURCES, ARCHS, st.integers(1, 7))
def test_shares_are_disjoint_and_complete(source: str, arch: str, count: int) -> None:
    owners = [index for index in range(1, count + 1) if is_ours(of([], index, count), source, arch)]
    assert len(owners) == 1


def test_shares_are_even() -> None:
    steps = [(f"csrc/unit_{number}.cu", arch) for number in range(200) for arch in ("sm_90a", "sm_100a")]
    for index in (1, 2, 3, 4):
        mine = sum(is_ours(of([], index, 4), *step) for step in steps)
        assert 70 <= mine <= 130


def test_architectures_choose() -> None:
    only = of(["sm_90a"])
    assert is_ours(only, "a.cu", "sm_90a")
    assert not is_ours(only, "a.cu", "sm_100a")
    assert not is_ours(only, "a.cpp", "")
    assert is_ours(of(["sm_90a", "host"]), "a.cpp", "")
    assert not has_whole(only, "a.cu")
    assert has_whole(of(["sm_90a", "sm_100a"]), "a.cu")


def test_without_a_part_everything_is_ours_and_probes_always_are() -> None:
    assert is_ours(settings(Path("/b")), "a.cu", "sm_90a")
    assert has_whole(settings(Path("/b")), "a.cu")
    assert is_ours(of(["sm_90a"]), PROBE, "sm_100a")


def test_an_empty_module_is_for_the_same_target() -> None:
    text = b"// x\n.version 9.0\n.target sm_90a, debug\n.address_size 64\n.visible .entry k() { ret; }\n"
    assert empty_module(text) == b".version 9.0\n.target sm_90a, debug\n.address_size 64\n"


def test_one_virtual_architecture_may_have_several_real_ones() -> None:
    config = settings(Path("/b"), pairs=[["compute_90", "sm_90"], ["compute_90", "compute_90"]])
    assert archs_of(config, "compute_90") == ["sm_90", "compute_90"]
    assert archs_of(config, "compute_80") == []
