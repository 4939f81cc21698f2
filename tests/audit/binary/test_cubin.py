"""The kernels of a cubin and of PTX text."""

from __future__ import annotations

import contextlib
import re
import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.audit.binary.cubin import Kernel, read_cubin, read_ptx
from orbit.audit.binary.payload import MalformedImage
from tests.writers.cubin import EMPTY, TRAPS, Body, Calls, Says, works, write_cubin

GUARD = re.compile(rb"without targeting")
KERNELS: dict[str, Body] = {
    "_Z5emptyv": EMPTY,
    "_Z4trapv": TRAPS,
    "_Z4workv": works(2048),
    "_Z5printv": Says("not for this device"),
    "_Z6assertv": Says("false && no", function="__assertfail"),
    "_Z7guardedv": Says("MMA used without targeting sm_90a", works=True),
    "_Z5callsv": Calls(),
}


def test_kernels_with_what_they_do() -> None:
    found = read_cubin(write_cubin(KERNELS, functions=("_Z6helperv",)), "x", GUARD)
    assert found.arch == "sm_90a"
    assert found.kernels == (
        Kernel("_Z5emptyv", 256, "empty", ""),
        Kernel("_Z4trapv", 256, "trap", ""),
        Kernel("_Z4workv", 2048, "", ""),
        Kernel("_Z5printv", 384, "message", "not for this device"),
        Kernel("_Z6assertv", 384, "message", "false && no"),
        Kernel("_Z7guardedv", 384, "", "MMA used without targeting sm_90a"),
        Kernel("_Z5callsv", 384, "", ""),
    )


def test_device_functions_are_no_kernels() -> None:
    assert read_cubin(write_cubin({}, functions=("_Z6helperv",)), "x").kernels == ()


def test_a_call_of_a_function_of_its_own_is_work() -> None:
    for body in (Calls(), Calls(prints=True)):
        (kernel,) = read_cubin(write_cubin({"_Z5callsv": body}), "x").kernels
        assert kernel.stub == ""


@pytest.mark.parametrize(
    ("arch", "abi", "note", "stated"),
    [
        ("sm_90a", 8, True, "sm_90a"),
        ("sm_100f", 8, True, "sm_100f"),
        ("sm_100a", 8, False, "sm_100*"),
        ("sm_90a", 7, False, "sm_90a"),
        ("sm_86", 7, False, "sm_86"),
    ],
)
def test_architecture_as_the_cubin_states_it(arch: str, abi: int, note: bool, stated: str) -> None:
    assert read_cubin(write_cubin({"k": EMPTY}, arch=arch, abi=abi, note=note), "x").arch == stated


def test_the_number_in_the_flags_counts_more_than_a_note() -> None:
    data = write_cubin({"k": EMPTY}, arch="sm_90a").replace(b"-arch sm_90a", b"-arch sm_80a")
    assert read_cubin(data, "x").arch == "sm_90*"


def test_ptx() -> None:
    text = b"""
.version 9.0
.target sm_90a
.address_size 64
.func helper() { ret; }
.visible .entry _Z4workPf(
    .param .u64 _Z4workPf_param_0
)
{ ret; }
.weak .entry _Z4morev() { ret; }
// not an .entry _Z7commentv
"""
    found = read_ptx(text)
    assert (found.arch, [kernel.name for kernel in found.kernels]) == ("compute_90a", ["_Z4workPf", "_Z4morev"])
    assert read_ptx(b"\xff\0 junk").kernels == ()


def header_field(data: bytes, at: int, shape: str, value: int) -> bytes:
    return data[:at] + struct.pack(shape, value) + data[at + struct.calcsize(shape) :]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x7fELF",
        write_cubin(KERNELS)[:300],
        header_field(write_cubin(KERNELS), 18, "<H", 62),
        header_field(write_cubin(KERNELS), 40, "<Q", 1 << 63),
        header_field(write_cubin(KERNELS), 60, "<H", 0xFFFF),
        header_field(write_cubin(KERNELS), 58, "<H", 8),
    ],
)
def test_what_is_not_a_cubin_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedImage, match=r"^lib\.so\[0\]: cubin"):
        read_cubin(data, "lib.so[0]")


def section(data: bytes, kind: int) -> int:
    """Where the header of the first section of a kind is."""
    (table,), (count,) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<H", data, 60)
    return next(at for at in range(table, table + 64 * count, 64) if struct.unpack_from("<I", data, at + 4)[0] == kind)


def with_symbols(count: int, name_at: int, *, size: int = 256) -> bytes:
    """A cubin whose symbol table is ``count`` kernels of one name and one body."""
    data = write_cubin({"_Z1kv" + "a" * 300: Says("MMA used without targeting", works=True)})
    at = section(data, 2)
    data = header_field(data, at + 24, "<Q", len(data))
    data = header_field(data, at + 32, "<Q", 24 * count)
    return data + struct.pack("<IBBHQQ", name_at, 0x12, 0x10, 4, 0, size) * count


@pytest.mark.parametrize(
    "data",
    [
        with_symbols(1 << 17, 1),
        with_symbols(60_000, 1 + len(b"$str$0\0vprintf\0")),
        header_field(write_cubin(KERNELS), section(write_cubin(KERNELS), 4) + 32, "<Q", 1 << 40),
        header_field(write_cubin(KERNELS), section(write_cubin(KERNELS), 2) + 32, "<Q", 1 << 40),
    ],
    ids=["kernels", "names", "pointers", "symbols"],
)
def test_no_more_work_than_a_compiler_could_ask_for(data: bytes) -> None:
    began = time.process_time()
    with pytest.raises(MalformedImage, match=r"more than|symbols"):
        read_cubin(data, "x", GUARD)
    assert time.process_time() - began < 20


def test_kernels_that_overlap_are_not_read_again_and_again() -> None:
    good = write_cubin({f"_Z1{letter}v": Says("MMA used without targeting", works=True) for letter in "abcd"})
    assert len(read_cubin(good, "x", GUARD).kernels) == 4
    text = section(good, 1)
    assert struct.unpack_from("<Q", good, text + 32)[0] == 384
    lying = header_field(header_field(good, text + 24, "<Q", 0), text + 32, "<Q", len(good))
    for number in range(4, 8):  # all kernels get the section that now holds the whole file
        kernel = struct.pack("<BBHQQ", 0x12, 0x10, number, 0, 384)
        lying = lying.replace(kernel, struct.pack("<BBHQQ", 0x12, 0x10, 4, 0, len(good)))
    with pytest.raises(MalformedImage, match="overlap"):
        read_cubin(lying, "x", GUARD)


def test_ptx_of_a_million_names() -> None:
    text = b".target sm_90\n" + b"".join(b".entry k%d()\n" % number for number in range(100_000))
    assert len(read_ptx(text).kernels) == 1 << 16


@given(st.integers(0, 4000), st.binary(min_size=1, max_size=16))
def test_any_damage_gives_kernels_or_a_reason(at: int, junk: bytes) -> None:
    data = write_cubin(KERNELS)
    data = data[: at % len(data)] + junk + data[at % len(data) + len(junk) :]
    with contextlib.suppress(MalformedImage):
        assert len(read_cubin(data, "x", GUARD).kernels) <= len(data) // 24


@given(st.binary(max_size=300))
def test_any_bytes_give_kernels_or_a_reason(data: bytes) -> None:
    with contextlib.suppress(MalformedImage):
        read_cubin(data, "x", GUARD)
    assert read_ptx(data).kernels is not None
