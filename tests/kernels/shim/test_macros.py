"""orbit.kernels.shim.macros: the macros of a command line as the compiler sees them, in every way they are written."""

from __future__ import annotations

import pytest

from orbit.kernels.shim.macros import defines


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
