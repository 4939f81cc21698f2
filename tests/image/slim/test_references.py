"""Who points into the device code, and what makes a file keep its containers where they are."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from orbit.audit.binary.elf import open_elf
from orbit.image.slim.elf import read_tables
from orbit.image.slim.facts import FilePlan
from orbit.image.slim.plan import apply_plan, plan_file
from orbit.image.slim.references import (
    STEP_BYTES,
    Unmovable,
    pointers,
    require_no_code,
    symbols_in,
)
from orbit.profile.model import SlimPolicy
from tests.image.slim.world import TARGETS, Library, Memory
from tests.writers.fatbin import Entry, write_container

FAT = write_container(Entry("sm_80", b"a" * 9000), Entry("sm_90a", b"b" * 700), Entry("sm_100", b"c" * 600))
LEA, LOAD, LEA32 = b"\x48\x8d\x3d", b"\x4c\x8b\x05", b"\x90\x8d\x3d"
"""lea rdi, [rip+x]; mov r8, [rip+x]; lea edi, [rip+x] behind a nop."""


def plan_of(tmp_path: Path, library: Library) -> FilePlan:
    path = tmp_path / "a.so"
    path.write_bytes(library.write())
    plan = plan_file(path, TARGETS, policy=SlimPolicy(unproved=True))
    apply_plan(plan, path, tmp_path / "b.so")
    return plan


def code_that_names(library: Library, opcode: bytes, inside: int, *, at: int = 0) -> bytes:
    """Code of the library's length with one instruction that addresses a byte of ``.nv_fatbin``."""
    library.write()
    target = library.find(".nv_fatbin").address + inside
    here = library.find(".text").address + at + 7
    code = opcode + struct.pack("<i", target - here)
    return bytes(at) + code + bytes(len(library.code) - at - 7)


def test_a_library_whose_wrappers_name_every_container_can_be_cut(tmp_path: Path) -> None:
    library = Library([FAT] * 3)
    assert plan_of(tmp_path, library).layout == "shrink"
    with open_elf(tmp_path / "a.so") as elf:
        tables = read_tables(elf)
        section = library.find(".nv_fatbin")
        found = pointers(elf, tables, [(section.address, section.address + section.size)])
        assert [pointer.target - section.address for pointer in found] == [n * (len(FAT) + 8) for n in range(3)]
        wrappers = library.find(".nvFatBinSegment")
        assert [pointer.slot for pointer in found] == [wrappers.offset + 24 * n + 8 for n in range(3)]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"wrapped": 2}, "no wrapper names one of the containers"),
        ({"relocations": [(".data.rel.ro", 8, 8, "start+16")]}, "into the middle of a container"),
        ({"relocations": [(".data.rel.ro", 8, 37, "start")]}, "a relocation of type 37 points into"),
        ({"relocations": [(".nv_fatbin", 64, 8, 0)]}, "a relocation writes into the device code"),
        ({"tags": [(36, 4096)]}, "DT_RELR"),
        ({"tags": [(17, 4096)]}, "DT_REL"),
        ({"tags": [(23, 1 << 40), (2, 24)]}, "relocation table is not in the file"),
        ({"dynamic_symbol": ".nv_fatbin"}, "a dynamic symbol lies in the device code"),
        ({"machine": 183}, "x86-64"),
        ({"kind": 2}, "shared objects"),
        ({"align": 3000}, "no power of two"),
        ({"align": 1 << 20}, "than its segments are aligned to (1048576 bytes)"),
    ],
)
def test_what_cannot_be_followed_keeps_its_place(tmp_path: Path, change: dict[str, object], why: str) -> None:
    library = Library([FAT] * 3)
    library.write()
    start = library.find(".nv_fatbin").address
    for key, value in change.items():
        if key == "relocations":
            assert isinstance(value, list)
            to = {"start": start, "start+16": start + 16}
            value = [(name, inside, kind, to.get(place, place)) for name, inside, kind, place in value]
        setattr(library, key, value)
    library.write()
    if "relocations" in change:  # one more entry of 24 bytes in front of everything moves it
        moved = library.find(".nv_fatbin").address - start
        library.relocations = [(a, b, c, d + moved if d else 0) for a, b, c, d in library.relocations]
    plan = plan_of(tmp_path, library)
    assert plan.layout == "holes"
    assert why in plan.why_not
    assert plan.new_size == plan.size
    assert plan.removed_entries == 3


@pytest.mark.parametrize(("opcode", "inside"), [(LEA, 0), (LEA, 79), (LOAD, 8), (LEA, len(FAT) + 8)])
def test_code_that_addresses_a_container_keeps_it(tmp_path: Path, opcode: bytes, inside: int) -> None:
    library = Library([FAT] * 3)
    library.code = code_that_names(library, opcode, inside, at=33)
    plan = plan_of(tmp_path, library)
    assert (plan.layout, plan.why_not) == ("holes", "code in .text takes the address of a container")


@pytest.mark.parametrize(("opcode", "inside"), [(LEA32, 0), (LEA, -1), (LEA, 80), (LEA, 12345), (LEA, 1 << 20)])
def test_other_code_does_not(tmp_path: Path, opcode: bytes, inside: int) -> None:
    library = Library([FAT] * 3)
    library.code = code_that_names(library, opcode, inside, at=33)
    assert plan_of(tmp_path, library).layout == "shrink"


@pytest.mark.parametrize(
    "at", [STEP_BYTES - 8, STEP_BYTES - 7, STEP_BYTES - 3, STEP_BYTES - 1, STEP_BYTES, STEP_BYTES + 1]
)
def test_code_is_found_across_the_border_of_two_blocks(tmp_path: Path, at: int) -> None:
    library = Library([FAT] * 3, code=bytes(STEP_BYTES + 100))
    library.code = code_that_names(library, LEA, 0, at=at)
    path = tmp_path / "a.so"
    path.write_bytes(library.write())
    with open_elf(path) as elf, pytest.raises(Unmovable, match="takes the address"):
        require_no_code(elf, read_tables(elf), [library.find(".nv_fatbin").address])


def test_a_place_without_bytes_in_the_file_has_only_its_relocation(tmp_path: Path) -> None:
    """The linker puts a pointer into .bss when nothing but the relocation gives it a value."""
    library = Library([FAT] * 3)
    library.relocations = [(".bss", 64, 8, 0)]
    library.write()
    library.relocations = [(".bss", 64, 8, library.find(".nv_fatbin").address + len(FAT) + 8)]
    assert plan_of(tmp_path, library).layout == "shrink"
    new = Memory((tmp_path / "b.so").read_bytes()).relocated()
    wrapper = library.find(".nvFatBinSegment").address
    assert new[library.find(".bss").address + 64] == new[wrapper + 24 + 8]


def test_static_symbols_of_other_sections_are_passed_over(tmp_path: Path) -> None:
    library = Library([FAT] * 3)
    path = tmp_path / "a.so"
    path.write_bytes(library.write())
    index = [part.name for part in library.parts].index(".nv_fatbin")
    with open_elf(path) as elf:
        tables = read_tables(elf)
        assert len(list(symbols_in(elf, tables, frozenset({index})))) == 3
        assert list(symbols_in(elf, tables, frozenset({index + 1}))) == []
