"""orbit.kernels.shim.macros: the macros of a command line as the compiler sees them, in every way they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.kernels.shim.macros import defines
from tests.kernels.shim.farm import call, configure, lines, make_farm


@pytest.mark.parametrize(
    ("line", "macros"),
    [
        ("a.cu -o a.o", []),
        ("-DNDEBUG -D WIDTH=4 a.cu", ["NDEBUG", "WIDTH=4"]),
        ("--define-macro=A,B=2 --define-macro C", ["A", "B=2", "C"]),
        ("-DF=f(1,2) -DG", ["F=f(1,2)", "G"]),
        ("-DA=1 -DA=2", ["A=2"]),
        ("-DA -DB -UA --undefine-macro=B", []),
        ("-UA -DA", ["A"]),
        ("-DA -U A -D B", ["B"]),
        ("-Xcompiler -DHOST,-fPIC --compiler-options='-DOTHER=1' -DDEVICE", ["DEVICE", "HOST", "OTHER=1"]),
        ("-Xcompiler '-fPIC' -O3", []),
        ("--diag-suppress=128 -dlink --dryrun", []),
        ("a.cu -D", []),
    ],
)
def test_macros_in_force(line: str, macros: list[str]) -> None:
    assert defines(line.split(" ")) == macros


def test_torchs_own_flags_leave_what_was_not_taken_back() -> None:
    torch = ["-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__", "-D__CUDA_NO_HALF2_OPERATORS__"]
    package = ["-U__CUDA_NO_HALF_OPERATORS__", "-U__CUDA_NO_HALF_CONVERSIONS__", "-DTORCH_EXTENSION_NAME=_C"]
    assert defines([*torch, *package]) == ["TORCH_EXTENSION_NAME=_C", "__CUDA_NO_HALF2_OPERATORS__"]


def test_the_log_has_the_macros_of_both_kinds_of_units_without_the_place_of_the_build(tmp_path: Path) -> None:
    farm = make_farm(tmp_path / "build")
    macros = ("-DON", "-DGONE", "-UGONE", f"-DHERE={farm}/src/x")
    assert call(farm, "nvcc", "-c", "src/a.cu", "-o", "a.o", *macros, NVCC_APPEND_FLAGS="-DAPPENDED").returncode == 0
    assert [line["defines"] for line in lines(farm, "compile")] == [["APPENDED", "HERE=src/x", "ON"]]
    configure(farm, programs={"g++": "/bin/true"})
    assert call(farm, "g++", "-c", "src/a.cpp", "-o", "b.o", *macros).returncode == 0
    assert [line["defines"] for line in lines(farm, "host")] == [["HERE=src/x", "ON"]]
