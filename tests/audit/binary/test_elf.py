"""The ELF reader: what a sound file says, and every way in which a header can lie."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.audit.binary.dynamic import read_dynamic
from orbit.audit.binary.elf import (
    EM_CUDA,
    HEADER,
    SECTION,
    SHT_CUDA_SHARED,
    SHT_NOBITS,
    Elf,
    FileBuffer,
    MalformedElf,
    is_elf,
    open_elf,
    open_if_elf,
)
from orbit.audit.binary.fatbin import containers_of
from tests.writers.elf import write_elf
from tests.writers.fatbin import write_container, write_section

DATA = b"some bytes"
SAMPLE = write_elf(soname="libx.so", needed=["libc.so.6"], sections=[(".data", DATA)])
MACHINE, PHOFF, SHOFF, PHENTSIZE, SHENTSIZE, SHNUM, SHSTRNDX = 18, 32, 40, 54, 58, 60, 62
"""Where the fields of the file header lie."""
NAME, KIND, OFFSET, SIZE, LINK = 0, 4, 24, 32, 40
"""Where the fields of a section header lie."""


def put(data: bytes, at: int, form: str, value: int) -> bytes:
    size = struct.calcsize(form)
    return data[:at] + struct.pack(form, value) + data[at + size :]


def header_at(data: bytes, section: str) -> int:
    """Where the header of a section lies in the file."""
    names = [item.name for item in Elf(data, "x").sections()]
    table: int = HEADER.unpack_from(data)[6]
    return table + names.index(section) * SECTION.size


def test_sections_and_segments_are_where_they_say() -> None:
    elf = Elf(SAMPLE, "x")
    section = next(item for item in elf.sections() if item.name == ".data")
    assert SAMPLE[section.offset : section.offset + section.size] == DATA
    assert elf.sections()[0].name == ""
    load = elf.segments()[0]
    assert (load.kind, load.offset, load.file_size) == (1, 0, len(SAMPLE))
    assert elf.machine == 62


@pytest.mark.parametrize("machine", [183, 247, 8])
def test_file_for_another_machine_is_read(machine: int) -> None:
    elf = Elf(write_elf(needed=["libc.so.6"], machine=machine), "x")
    facts = read_dynamic(elf)
    assert facts is not None
    assert (elf.machine, facts.needed) == (machine, ("libc.so.6",))


def test_header_cut_short_anywhere() -> None:
    for size in range(HEADER.size):
        with pytest.raises(MalformedElf, match=f"^x: {size} bytes, too short for an ELF header\n"):
            Elf(SAMPLE[:size], "x")


def test_file_cut_short_anywhere_has_no_section_table() -> None:
    for size in range(HEADER.size, len(SAMPLE)):
        with pytest.raises(MalformedElf, match="lies outside the file"):
            Elf(SAMPLE[:size], "x").sections()


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [(0, 0x7E, "does not start with the ELF magic"), (4, 1, "not a 64-bit"), (5, 2, "not a 64-bit little-endian")],
)
def test_other_classes_and_byte_orders_are_refused(tmp_path: Path, at: int, value: int, message: str) -> None:
    data = put(SAMPLE, at, "B", value)
    with pytest.raises(MalformedElf, match=message):
        Elf(data, "x")
    (tmp_path / "x.so").write_bytes(data)
    assert not is_elf(data)
    with open_if_elf(tmp_path / "x.so") as elf:
        assert elf is None


def test_file_without_sections_still_has_its_dynamic_facts() -> None:
    elf = Elf(put(put(SAMPLE, SHOFF, "<Q", 0), SHNUM, "<H", 0), "x")
    assert elf.sections() == ()
    facts = read_dynamic(elf)
    assert facts is not None
    assert (facts.soname, facts.needed) == ("libx.so", ("libc.so.6",))


def test_file_without_section_names() -> None:
    found = Elf(put(SAMPLE, SHSTRNDX, "<H", 0), "x").sections()
    assert {item.name for item in found} == {""}
    assert [item.offset for item in found] == [item.offset for item in Elf(SAMPLE, "x").sections()]


def test_extended_numbering() -> None:
    """With 65280 sections or more the header says 0 and 0xffff; section 0 has the numbers."""
    table, count, names = (HEADER.unpack_from(SAMPLE)[position] for position in (6, 12, 13))
    data = put(put(SAMPLE, SHNUM, "<H", 0), SHSTRNDX, "<H", 0xFFFF)
    data = put(put(data, table + SIZE, "<Q", count), table + LINK, "<I", names)
    assert Elf(data, "x").sections()[1:] == Elf(SAMPLE, "x").sections()[1:]
    with pytest.raises(MalformedElf, match="section header table"):
        Elf(put(data, table + SIZE, "<Q", 2**60), "x").sections()


@pytest.mark.parametrize(
    ("at", "form", "value", "message"),
    [
        (SHOFF, "<Q", len(SAMPLE), "section header table"),
        (SHOFF, "<Q", 2**64 - 1, "section header table"),
        (SHENTSIZE, "<H", 40, "section headers of 40 bytes"),
        (SHSTRNDX, "<H", 99, "section name table is section 99"),
        (header_at(SAMPLE, ".data") + OFFSET, "<Q", len(SAMPLE) - 1, "section at"),
        (header_at(SAMPLE, ".data") + SIZE, "<Q", 2**63, "section at"),
        (header_at(SAMPLE, ".data") + NAME, "<I", 10**6, "string at 1000000 runs past its table"),
        (header_at(SAMPLE, ".shstrtab") + OFFSET, "<Q", len(SAMPLE), "section name table at"),
        (header_at(SAMPLE, ".shstrtab") + SIZE, "<Q", 3, "runs past its table of 3 bytes"),
    ],
)
def test_sections_that_cannot_be(at: int, form: str, value: int, message: str) -> None:
    with pytest.raises(MalformedElf, match=message):
        Elf(put(SAMPLE, at, form, value), "x").sections()


@pytest.mark.parametrize(
    ("at", "form", "value", "message"),
    [
        (PHOFF, "<Q", len(SAMPLE), "program header table"),
        (PHENTSIZE, "<H", 32, "program headers of 32 bytes"),
        (64 + 32, "<Q", len(SAMPLE) + 1, "segment at"),
        (64 + 56 + 8, "<Q", 2**40, "segment at"),
    ],
)
def test_segments_that_cannot_be(at: int, form: str, value: int, message: str) -> None:
    with pytest.raises(MalformedElf, match=message):
        read_dynamic(Elf(put(SAMPLE, at, form, value), "x"))


@pytest.mark.parametrize("offset", [0, 64, 2**40])
def test_section_without_bytes_in_the_file_holds_nothing(offset: int) -> None:
    """A file of debug information keeps the headers of .nv_fatbin, with type NOBITS and any offset."""
    data = write_elf(sections=[(".nv_fatbin", write_section(write_container("sm_90a")))])
    assert len(list(containers_of(Elf(data, "x")))) == 1
    at = header_at(data, ".nv_fatbin")
    data = put(put(data, at + KIND, "<I", SHT_NOBITS), at + OFFSET, "<Q", offset)
    elf = Elf(data, "x")
    assert [item.size for item in elf.sections() if item.name == ".nv_fatbin"] == [0]
    assert list(containers_of(elf)) == []


def test_shared_memory_of_relocatable_device_code_has_no_bytes() -> None:
    at = header_at(SAMPLE, ".data")
    shared = put(put(SAMPLE, at + KIND, "<I", SHT_CUDA_SHARED), at + SIZE, "<Q", 1 << 20)
    device = Elf(put(shared, MACHINE, "<H", EM_CUDA), "x")
    assert [item.size for item in device.sections() if item.name == ".data"] == [0]
    # the number means something else on other machines
    with pytest.raises(MalformedElf, match="lies outside the file"):
        Elf(shared, "x").sections()


def test_opening_files_that_are_not_elf(tmp_path: Path) -> None:
    script, fifo, short = tmp_path / "script", tmp_path / "fifo", tmp_path / "short"
    script.write_text("#!/bin/sh\nexit 0\n" * 20)
    os.mkfifo(fifo)
    short.write_bytes(SAMPLE[:20])
    for path in (script, fifo):
        with open_if_elf(path) as elf:
            assert elf is None
    with pytest.raises(MalformedElf, match=r"^label: not a 64-bit"), open_elf(script, "label"):
        pass
    with pytest.raises(MalformedElf, match="20 bytes, too short"), open_if_elf(short):
        pass
    with pytest.raises(FileNotFoundError), open_elf(tmp_path / "none"):
        pass


def test_file_handle_is_closed_after_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.so").write_bytes(put(SAMPLE, SHENTSIZE, "<H", 40))
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(MalformedElf), open_elf(tmp_path / "x.so") as elf:
        elf.sections()
    assert len(os.listdir("/proc/self/fd")) == before


def test_sections_without_number_and_names_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a sparse file of a terabyte everything lies inside the file, and sections may share one long name."""
    data = bytearray(write_elf(soname="x", sections=[("a" * 200, b"")]))
    elf = Elf(bytes(data), "x")
    start, count = HEADER.unpack(data[: HEADER.size])[6], len(elf.sections())
    (long,) = (number for number, section in enumerate(elf.sections()) if section.name.startswith("aaa"))
    with monkeypatch.context() as patch:
        patch.setattr("orbit.audit.binary.elf.MAX_SECTIONS", 3)
        with pytest.raises(MalformedElf, match=f"{count} sections"):
            elf.sections()
    monkeypatch.setattr("orbit.audit.binary.elf.MAX_SECTION_NAMES", 250)
    with pytest.raises(MalformedElf, match="bytes of section names"):
        elf.sections()
    monkeypatch.setattr("orbit.audit.binary.elf.MAX_SECTION_NAMES", 350)
    assert len(elf.sections()) == count
    for number in range(1, count - 1):
        at = start + number * SECTION.size
        data[at : at + 4] = data[start + long * SECTION.size :][:4]
    with pytest.raises(MalformedElf, match="longer than their table"):
        Elf(bytes(data), "x").sections()


BYTES = (b"\1" * 16_380 + b"needle in hay" + b"\2" * 20_000 + b"ab\0") * 2


@contextlib.contextmanager
def open_file(data: bytes) -> Iterator[FileBuffer]:
    handle = os.memfd_create("x")
    try:
        os.write(handle, data)
        yield FileBuffer(handle, len(data), "x")
    finally:
        os.close(handle)


@given(st.integers(-5, 70_000), st.integers(-5, 70_000), st.sampled_from([b"\0", b"ab", b"needle in hay", b"x" * 40]))
def test_a_file_reads_as_its_bytes(start: int, stop: int, sub: bytes) -> None:
    data = BYTES
    with open_file(data) as buffer:
        assert buffer[max(0, start) : stop] == data[max(0, start) : stop]
        assert buffer.find(sub, max(0, start), max(0, stop)) == data.find(sub, max(0, start), max(0, stop))
        assert buffer.find(sub) == data.find(sub)
        assert [buffer[at] for at in (0, 16383, 16384, len(data) - 1)] == [data[at] for at in (0, 16383, 16384, -1)]
        assert buffer.find(b"x", 2**63, 2**64) == -1


def test_a_file_that_is_cut_short_meanwhile(tmp_path: Path) -> None:
    """With a map of the file the process would be killed (SIGBUS)."""
    path = tmp_path / "x.so"
    path.write_bytes(write_elf(soname="x", sections=[("big", bytes(100_000))]))
    with open_elf(path) as elf:
        os.truncate(path, 100)
        with pytest.raises(MalformedElf, match="cut short while"):
            elf.sections()
    os.truncate(path, 1 << 40)
    with pytest.raises(MalformedElf, match="more than any library"), open_elf(path):
        pass


def test_names_beyond_every_file_are_damage(tmp_path: Path) -> None:
    data = bytearray(write_elf(soname="x", needed=["y"]))
    at = next(section.offset for section in Elf(bytes(data), "x").sections() if section.name == ".dynamic")
    struct.pack_into("<Q", data, at + 8, 2**64 - 1)
    (tmp_path / "x.so").write_bytes(data)
    with open_elf(tmp_path / "x.so") as elf, pytest.raises(MalformedElf, match="runs past the dynamic string table"):
        read_dynamic(elf)
