"""orbit.kernels.symbols: the names in a wheel's binaries, read through the formats themselves."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from orbit.audit.binary.elf import MalformedBinary
from orbit.kernels import symbols
from orbit.kernels.symbols import WheelSymbols
from tests.writers.cubin import cubin_entry, works
from tests.writers.elf import Export, write_elf
from tests.writers.fatbin import Entry, write_container, write_section

ARCHS = ("sm_90a", "sm_100a")


def wheel_symbols(files: dict[str, bytes], archs: tuple[str, ...]) -> WheelSymbols:
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return symbols.wheel_symbols(Path(folder), archs)


def container(hopper: str, blackwell: str) -> bytes:
    return write_container(cubin_entry("sm_90a", {hopper: works()}), cubin_entry("sm_100a", {blackwell: works()}))


def binary(*containers: bytes, section: str = ".nv_fatbin", exports: tuple[str, ...] = ()) -> bytes:
    sections = [(section, write_section(*containers))] if containers else []
    return write_elf(sections=sections, exports=[Export(name) for name in exports])


def test_kernels_by_architecture_over_all_containers_and_files() -> None:
    files = {
        "a/one.so": binary(container("_Z1av", "_Z1av"), container("_Z1bv", "_Z1cv"), exports=("_Z4initv",)),
        "a/two.so": binary(container("_Z1dv", "_Z1dv"), exports=("PyInit_two",)),
        "a/__init__.py": b"_Z1ev = 1",
    }
    found = wheel_symbols(files, ARCHS)
    assert found.kernels == {"sm_90a": {"_Z1av", "_Z1bv", "_Z1dv"}, "sm_100a": {"_Z1av", "_Z1cv", "_Z1dv"}}
    assert found.exports == {"_Z4initv", "PyInit_two"}


def test_relocatable_code_does_not_count_the_linked_one_does() -> None:
    lost = binary(container("_Z1av", "_Z1av"), section="__nv_relfatbin")
    linked = binary(container("_Z1bv", "_Z1bv"))
    assert wheel_symbols({"a.so": lost, "b.so": linked}, ARCHS).kernels == {"sm_90a": {"_Z1bv"}, "sm_100a": {"_Z1bv"}}


def test_asked_for_architectures_have_a_key_and_others_have_none() -> None:
    # as in a DeepEP wheel: NVSHMEM's static device library brings code for every architecture NVIDIA thought of
    others = binary(write_container(cubin_entry("sm_120", {"_Z1av": works()})))
    assert wheel_symbols({"a.so": others}, ARCHS).kernels == {"sm_90a": set(), "sm_100a": set()}
    assert wheel_symbols({}, ARCHS).kernels == {"sm_90a": set(), "sm_100a": set()}


def test_ptx_is_no_kernel() -> None:
    ptx = Entry("compute_90", payload=b".version 8.0\n.target sm_90\n.visible .entry _Z1av()\n{ ret; }\n")
    assert wheel_symbols({"a.so": binary(write_container(ptx))}, ARCHS).kernels == {"sm_90a": set(), "sm_100a": set()}


def test_a_damaged_cubin_is_an_error_that_names_it() -> None:
    with pytest.raises(MalformedBinary, match=r"a\.so: \.nv_fatbin container 0 sm_90a"):
        wheel_symbols({"a.so": binary(write_container(Entry("sm_90a", payload=b"no cubin")))}, ARCHS)
