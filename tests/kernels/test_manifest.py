"""orbit.kernels.manifest: any difference between requested, compiled and found is exactly one finding."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from orbit.audit.binary.fatbin import Container, Image
from orbit.errors import InputError
from orbit.kernels.manifest import BuildManifest, Unit, check, read_units, summarise
from orbit.kernels.recipe import Recipe, load_recipe
from orbit.kernels.sources import Source

WANTED = ("compute_90a:sm_90a", "compute_100a:sm_100a")
EFFECTIVE = ("arch=compute_90a,code=sm_90a", "arch=compute_100a,code=sm_100a")


def container(index: int, *archs: str) -> Container:
    images = tuple(Image("ptx" if arch.startswith("compute") else "elf", arch, 0, 1, 0, "", 0) for arch in archs)
    return Container(".nv_fatbin", index, 0, images)


def unit(name: str = "a.cu", effective: tuple[str, ...] = EFFECTIVE, status: int = 0) -> Unit:
    return Unit(kind="compile", sources=(name,), requested=("compute_75:sm_75",), effective=effective, status=status)


def manifest(containers: list[Container], units: tuple[Unit, ...]) -> BuildManifest:
    return BuildManifest(
        recipe="causal-conv1d",
        dist="causal-conv1d",
        version="1",
        source=Source(kind="sdist", version="1", sha256="0" * 64),
        requested=WANTED,
        units=units,
        found=(summarise("x.so", containers, "2.34"),),
        compiler="13.0",
        host_compiler="g++ 12",
        python="3.12",
        group="torch-build",
        closure="",
        env={},
        shim="",
        wheel="x.whl",
        wheel_sha256="",
    )


RECIPE = load_recipe("causal-conv1d")
GOOD = [container(i, "sm_90a", "sm_100a") for i in range(3)]


def rules(built: BuildManifest, recipe: Recipe = RECIPE) -> list[str]:
    return [finding.rule for finding in check(built, recipe)]


def test_agreement_is_no_finding() -> None:
    assert RECIPE.device_units == 3
    assert rules(manifest(GOOD, (unit(), unit("b.cu"), unit("c.cu")))) == []


def test_a_missing_an_extra_and_a_ptx_image_are_findings() -> None:
    for wrong in (("sm_90a",), ("sm_90a", "sm_100a", "sm_120"), ("sm_90a", "sm_100a", "compute_100a"), ()):
        assert rules(manifest([*GOOD[:2], container(2, *wrong)], (unit(),))) == ["kernel-found"]
    assert rules(manifest([container(i, "sm_90", "sm_100") for i in range(3)], (unit(),))) == ["kernel-found"]


def test_a_dropped_and_an_unexpected_unit_are_findings() -> None:
    assert rules(manifest(GOOD[:2], (unit(),))) == ["kernel-units"]
    assert rules(manifest([*GOOD, *GOOD], (unit(),))) == ["kernel-units"]
    host_only = msgspec.structs.replace(RECIPE, device_units=0)
    assert rules(manifest([], ()), host_only) == []
    assert rules(manifest([], ())) == ["kernel-units"]


def test_containers_of_static_libraries_are_counted_and_no_more() -> None:
    recipe = msgspec.structs.replace(RECIPE, linked_units=2)
    theirs = [container(i, "sm_90", "sm_100", "compute_120") for i in (3, 4)]
    assert rules(manifest([*GOOD, *theirs], ()), recipe) == []
    # one of ours that was compiled for the wrong target is not taken for one of theirs
    assert rules(manifest([*GOOD[:2], container(2, "sm_90a"), *theirs], ()), recipe) == ["kernel-found"] * 2
    assert rules(manifest([*GOOD, *theirs[:1]], ()), recipe) == ["kernel-found", "kernel-units"]
    assert rules(manifest(GOOD, ()), recipe) == ["kernel-units"]
    assert rules(manifest([*GOOD, *theirs], ())) == ["kernel-found", "kernel-units"]


def test_a_unit_that_bypassed_the_shims_choice_is_a_finding() -> None:
    assert rules(manifest(GOOD, (unit(effective=EFFECTIVE[:1]),))) == ["kernel-compiled"]
    assert rules(manifest(GOOD, (unit(effective=EFFECTIVE[:1], status=1), unit()))) == []


def test_a_summary_counts_containers_and_images() -> None:
    found = summarise("x.so", [*GOOD, container(3, "sm_90a")], "2.34")
    assert found.coverage == {"sm_100a+sm_90a": 3, "sm_90a": 1}
    assert found.images == {"sm_100a": 3, "sm_90a": 4}


def test_the_log_of_the_shim(tmp_path: Path) -> None:
    log = tmp_path / "units.jsonl"
    assert read_units(log) == ()
    lines = [
        {"kind": "compile", "sources": [name], "requested": [], "effective": list(EFFECTIVE), "seconds": 1, "status": 0}
        for name in ("b.cu", "a.cu")
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [each.sources for each in read_units(log)] == [("a.cu",), ("b.cu",)]
    once = {"kind": "compile", "sources": ["a.cu"], "requested": [], "effective": [], "status": 0}
    twice = [{**once, "defines": ["TWO"]}, {**once, "defines": ["ONE"]}]
    log.write_text("".join(json.dumps(line) + "\n" for line in twice))
    assert [each.defines for each in read_units(log)] == [("ONE",), ("TWO",)]
    log.write_text('{"error": "asks for PTX", "status": 2}\n')
    with pytest.raises(InputError, match="asks for PTX"):
        read_units(log)
    log.write_text("{half a li")
    with pytest.raises(InputError, match="not a log"):
        read_units(log)


def test_a_unit_of_the_host_compiler_has_macros_and_no_architectures(tmp_path: Path) -> None:
    log = tmp_path / "units.jsonl"
    lines = [
        {"kind": "host", "sources": ["a.cpp"], "defines": ["NDEBUG"], "status": 0},
        {"kind": "step", "step": "host", "source": "a.cpp", "status": 0},
        {"kind": "probe", "sources": ["b.cpp"], "defines": [], "status": 1},
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (host,) = read_units(log)
    assert (host.kind, host.sources, host.requested, host.defines) == ("host", ("a.cpp",), (), ("NDEBUG",))
    assert rules(manifest(GOOD, (unit(), host))) == []
