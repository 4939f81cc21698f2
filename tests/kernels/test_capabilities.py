"""orbit.kernels.capabilities: the loading rules against a table written down from the CUDA documentation."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.core.records import load_toml
from orbit.errors import InputError
from orbit.kernels.capabilities import CapabilityTable, compiles, first_cuda, loads, parse_arch, ptx_loads, table

DEVICES = ("7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.3", "11.0", "12.0", "12.1")

SASS = {
    "sm_75": {"7.5"},
    "sm_80": {"8.0", "8.6", "8.9"},
    "sm_86": {"8.6", "8.9"},
    "sm_87": {"8.7"},
    "sm_90": {"9.0"},
    "sm_90a": {"9.0"},
    "sm_100": {"10.0", "10.3"},
    "sm_100a": {"10.0"},
    "sm_100f": {"10.0", "10.3"},
    "sm_103": {"10.3"},
    "sm_103a": {"10.3"},
    "sm_103f": {"10.3"},
    "sm_110": {"11.0"},
    "sm_120": {"12.0", "12.1"},
    "sm_120a": {"12.0"},
    "sm_120f": {"12.0", "12.1"},
    "sm_121": {"12.1"},
    "compute_90": set(),
    "lto_90": set(),
}

PTX = {
    "compute_80": {"8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.3", "11.0", "12.0", "12.1"},
    "compute_90": {"9.0", "10.0", "10.3", "11.0", "12.0", "12.1"},
    "compute_90a": {"9.0"},
    "compute_100": {"10.0", "10.3", "11.0", "12.0", "12.1"},
    "compute_100a": {"10.0"},
    "compute_100f": {"10.0", "10.3"},
    "compute_120f": {"12.0", "12.1"},
    "sm_90": set(),
}


@pytest.mark.parametrize("arch", sorted(SASS))
def test_machine_code(arch: str) -> None:
    assert {device for device in DEVICES if loads(arch, device)} == SASS[arch]


@pytest.mark.parametrize("arch", sorted(PTX))
def test_ptx(arch: str) -> None:
    assert {device for device in DEVICES if ptx_loads(arch, device)} == PTX[arch]


@given(st.integers(5, 20), st.integers(0, 9), st.integers(5, 20), st.integers(0, 9))
def test_machine_code_never_crosses_a_major(major: int, minor: int, other: int, other_minor: int) -> None:
    for suffix in ("", "a", "f"):
        loaded = loads(f"sm_{major}{minor}{suffix}", f"{other}.{other_minor}")
        assert not loaded or major == other
        if suffix == "a":
            assert loaded == ((major, minor) == (other, other_minor))


def test_names() -> None:
    arch = parse_arch("sm_100a")
    assert (arch.code, arch.major, arch.minor, arch.suffix, arch.capability) == ("sm", 10, 0, "a", "10.0")
    for wrong in ("sm90", "90a", "sm_9", "sm_90b", "", "SM_90"):
        with pytest.raises(InputError, match="not a GPU architecture name"):
            parse_arch(wrong)


def test_compiler_releases() -> None:
    assert first_cuda("sm_90a") == "12.0"
    assert first_cuda("sm_100f") == "12.9"
    assert compiles("sm_100a", "13.0")
    assert compiles("sm_100a", "12.8")
    assert not compiles("sm_100a", "12.4")
    assert not compiles("sm_100f", "12.8")
    assert not compiles("sm_70", "13.0")
    assert compiles("sm_70", "12.9")
    for unknown in ("sm_90f", "sm_80a", "sm_45"):
        with pytest.raises(InputError, match=r"capabilities\.toml"):
            first_cuda(unknown)


def test_shipped_table_is_complete_for_13_0() -> None:
    """The base capabilities nvcc 13.0 lists (nvcc --list-gpu-arch)."""
    listed = {"7.5", "8.0", "8.6", "8.7", "8.8", "8.9", "9.0", "10.0", "10.3", "11.0", "12.0", "12.1"}
    assert {row.capability for row in table().capabilities if not row.until} == listed


def test_unknown_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "capabilities.toml"
    path.write_text('schema = 1\n[[capabilities]]\ncapability = "9.0"\nspeed = 3\n')
    with pytest.raises(InputError, match="capabilities"):
        load_toml(path, CapabilityTable)
