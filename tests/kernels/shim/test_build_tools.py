"""orbit.kernels.shim.build_tools: -j is ours, whatever a build script computes; queries are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.kernels.shim.build_tools import without_jobs
from tests.kernels.shim.farm import call, calls, configure, make_farm


@pytest.mark.parametrize(
    ("given", "left"),
    [
        (["-v", "-j", "8"], ["-v"]),
        (["-v", "-j8", "all"], ["-v", "all"]),
        (["-j", "all"], ["all"]),
        (["--jobs=3", "-C", "x"], ["-C", "x"]),
        (["--jobs", "3", "-k", "0"], ["-k", "0"]),
        (["-jobs-are-fine"], ["-jobs-are-fine"]),
    ],
)
def test_every_spelling_is_removed(given: list[str], left: list[str]) -> None:
    assert without_jobs(given) == left


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    root = make_farm(tmp_path / "build")
    programs = {}
    for tool in ("ninja", "make"):
        real = tmp_path / tool
        real.write_text(f'#!/bin/sh\necho "{tool} $*|$MAKEFLAGS" >> {tmp_path}/calls\n')
        real.chmod(0o755)
        programs[tool] = str(real)
    configure(root, programs=programs, inflight=6)
    return root


def test_ninja_and_make_get_ours(farm: Path) -> None:
    assert call(farm, "ninja", "-v", "-j", "64").returncode == 0
    assert call(farm, "make", "-j64", "all", MAKEFLAGS="-j9 -k").returncode == 0
    assert calls(farm) == ["ninja -j6 -v|", "make -j6 all|-k"]


def test_a_make_below_a_make_shares_its_jobs(farm: Path) -> None:
    flags = "-j6 --jobserver-auth=3,4"
    assert call(farm, "make", "-j8", "all", MAKELEVEL="1", MAKEFLAGS=flags).returncode == 0
    assert calls(farm) == [f"make all|{flags}"]


def test_queries_are_left_alone(farm: Path) -> None:
    for query in (["--version"], ["-t", "targets"], ["-j3", "--help"]):
        call(farm, "ninja", *query)
    assert calls(farm) == ["ninja --version|", "ninja -t targets|", "ninja -j3 --help|"]


def test_without_a_number_the_build_decides(farm: Path) -> None:
    configure(farm, programs={"ninja": str(farm.parent / "ninja")})
    call(farm, "ninja", "-j3")
    assert calls(farm) == ["ninja -j3|"]
