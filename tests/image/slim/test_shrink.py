"""The file itself gets shorter: segments, section table, alignment."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from orbit.audit.binary.elf import MalformedElf, open_elf
from orbit.image.slim.elf import PT_GNU_RELRO, RawSegment, offset_of, read_tables, require_alone
from orbit.image.slim.facts import FilePlan
from orbit.image.slim.plan import apply_plan, plan_file
from orbit.profile.model import SlimPolicy
from tests.image.slim.world import PAGE, TARGETS, Library, Memory
from tests.writers.fatbin import Entry, write_container

FAT = write_container(Entry("sm_80", b"a" * 9000), Entry("sm_90a", b"b" * 700), Entry("sm_100", b"c" * 600))
THIN = write_container(Entry("sm_90", b"b" * 700), Entry("sm_100", b"c" * 600))


def shrunk(tmp_path: Path, library: Library) -> tuple[FilePlan, Path]:
    path = tmp_path / "a.so"
    path.write_bytes(library.write())
    plan = plan_file(path, TARGETS, policy=SlimPolicy(unproved=True))
    apply_plan(plan, path, tmp_path / "b.so")
    return plan, tmp_path / "b.so"


@pytest.mark.parametrize("align", [PAGE, 1 << 16])
def test_what_leaves_the_file_is_a_multiple_of_every_alignment(tmp_path: Path, align: int) -> None:
    plan, out = shrunk(tmp_path, Library([FAT] * 30, align=align))
    assert plan.layout == "shrink"
    assert (plan.size - plan.new_size) % align == 0
    assert 0 <= plan.removed_bytes - (plan.size - plan.new_size) < align + PAGE + 1000
    assert all(item[7] == align for item in Memory(out.read_bytes()).loads)


def test_one_segment_more_for_each_section_that_was_cut(tmp_path: Path) -> None:
    for relocatable, more in (([], 1), ([FAT], 2), ([THIN] * 9, 1)):
        library = Library([FAT] * 2, relocatable=relocatable)
        _plan, out = shrunk(tmp_path, library)
        old, new = Memory((tmp_path / "a.so").read_bytes()), Memory(out.read_bytes())
        assert len(new.segments) == len(old.segments) + more
        ends = {item[3] + item[6] for item in new.loads}
        assert {item[3] + item[6] for item in old.loads} <= ends
        assert {item[3] for item in old.loads} <= {item[3] for item in new.loads}
        assert [item[0] for item in new.segments if item[0] != 1] == [item[0] for item in old.segments if item[0] != 1]


def test_the_new_table_of_segments_is_in_memory_and_says_where(tmp_path: Path) -> None:
    _plan, out = shrunk(tmp_path, Library([FAT] * 2, phdr=True))
    data = out.read_bytes()
    new = Memory(data)
    at, count = struct.unpack("<Q", data[32:40])[0], struct.unpack("<H", data[56:58])[0]
    kind, _flags, offset, address, physical, size, memory, _align = new.segments[0]
    assert (kind, offset, size, memory, physical) == (6, at, 56 * count, 56 * count, address)
    assert new.read(address, size) == data[at : at + size]
    assert at % 8 == 0


def test_sections_that_lose_less_than_a_page_stay_as_they_lie(tmp_path: Path) -> None:
    """One section is cut, the other has its entries taken out in place, and embedded containers never move."""
    small = write_container(Entry("sm_80", b"a" * 900), Entry("sm_90a", b"b" * 700), Entry("sm_100", b"c" * 600))
    library = Library([FAT] * 3, relocatable=[small], embedded=b"0123456789abcdef" + FAT)
    plan, out = shrunk(tmp_path, library)
    assert (plan.layout, plan.removed_entries) == ("shrink", 5)
    new = Memory(out.read_bytes())
    assert [arch for arch, _ in new.container(library.find("__nv_relfatbin").address)] == ["sm_90a", "sm_100"]
    assert [arch for arch, _ in new.container(library.find(".cask_resource").address + 16)] == ["sm_90a", "sm_100"]
    assert new.read(library.find(".cask_resource").address, 16) == b"0123456789abcdef"


def test_containers_stay_aligned_and_in_order(tmp_path: Path) -> None:
    odd = bytearray(write_container(Entry("sm_90", bytes(8)), Entry("sm_100", b"12345678"))) + b"9"
    odd[8] += 1  # bytes of the container
    odd[16 + 72 + 8] += 1  # and of its last payload: padding is not a matter of course
    _plan, out = shrunk(tmp_path, Library([FAT, bytes(odd), FAT], gap=12))
    places = list(Memory(out.read_bytes()).relocated().values())[:3]
    assert all(place % 8 == 0 for place in places)
    assert places == sorted(places)


def test_readelf_has_no_complaint(tmp_path: Path) -> None:
    tool = shutil.which("readelf")
    if tool is None:
        pytest.skip("readelf (binutils) is not installed")
    _plan, out = shrunk(tmp_path, Library([FAT] * 5, relocatable=[FAT] * 2, phdr=True))
    done = subprocess.run(
        [tool, "-a", "-W", str(out)], capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"}
    )
    assert done.stderr == ""


def test_a_section_in_two_segments_or_at_another_address_keeps_its_length(tmp_path: Path) -> None:
    library = Library([FAT] * 3)
    data = bytearray(library.write())
    table = struct.unpack("<Q", data[40:48])[0]
    index = [part.name for part in library.parts].index(".nv_fatbin")
    address = table + 64 * index + 16
    data[address : address + 8] = struct.pack("<Q", library.find(".nv_fatbin").address + 16)
    path = tmp_path / "a.so"
    path.write_bytes(data)
    plan = plan_file(path, TARGETS, policy=SlimPolicy(unproved=True))
    assert (plan.layout, plan.why_not) == ("holes", "the section .nv_fatbin is not where its segment is loaded")
    data[64 + 56 * 2 + 32 : 64 + 56 * 2 + 40] = struct.pack("<Q", 500)  # file size of the third segment
    path.write_bytes(data)
    plan = plan_file(path, TARGETS, policy=SlimPolicy(unproved=True))
    assert (plan.layout, plan.why_not) == ("holes", "the section .nv_fatbin does not lie in one segment")


def test_a_section_that_becomes_read_only_later_keeps_its_length(tmp_path: Path) -> None:
    """A PT_GNU_RELRO around it: the loader would change the protection of pages that are no longer there."""
    library = Library([FAT] * 3)
    data = bytearray(library.write())
    section = library.find(".nv_fatbin")
    stack = 64 + 56 * 5
    data[stack : stack + 4] = struct.pack("<I", PT_GNU_RELRO)
    data[stack + 8 : stack + 48] = struct.pack("<QQQQQ", section.offset, section.address, 0, 100, 100)
    path = tmp_path / "a.so"
    path.write_bytes(data)
    plan = plan_file(path, TARGETS, policy=SlimPolicy(unproved=True))
    assert (plan.layout, plan.why_not) == ("holes", "the section .nv_fatbin is part of another segment as well")


def test_tables_are_read_with_every_field(tmp_path: Path) -> None:
    library = Library([FAT])
    path = tmp_path / "a.so"
    path.write_bytes(library.write())
    with open_elf(path) as elf:
        tables = read_tables(elf)
    assert [item.name for item in tables.sections] == [part.name for part in library.parts]
    assert [item.align for item in tables.sections] == [part.align for part in library.parts]
    assert tables.segments[0] == RawSegment(
        1, 4, 0, 0, 0, tables.segments[0].file_size, tables.segments[0].file_size, PAGE
    )
    wrapper = library.find(".nvFatBinSegment")
    assert offset_of(tables, wrapper.address + 8, 8) == wrapper.offset + 8
    assert offset_of(tables, library.find(".bss").address + 4000, 8) is None


@pytest.mark.parametrize("other", ["the table of program headers", "the section table", "a segment of type 0x2"])
def test_a_section_that_covers_something_else_is_refused(tmp_path: Path, other: str) -> None:
    library = Library([FAT])
    data = bytearray(library.write())
    at = library.find(".nv_fatbin").offset + 40
    if other == "the table of program headers":
        data[at : at + 56 * 6] = data[64 : 64 + 56 * 6]
        data[32:40] = struct.pack("<Q", at)
    elif other == "the section table":
        table = struct.unpack("<Q", data[40:48])[0]
        size = 64 * len(library.parts)
        data[at : at + size] = data[table : table + size]
        data[40:48] = struct.pack("<Q", at)
    else:
        data[64 + 56 * 4 + 8 : 64 + 56 * 4 + 16] = struct.pack("<Q", at)
    path = tmp_path / "a.so"
    path.write_bytes(data)
    with open_elf(path) as elf:
        tables = read_tables(elf)
        sections = [section for _, section in tables.device((".nv_fatbin",))]
        with pytest.raises(MalformedElf, match=f"{other} lies in the section"):
            require_alone(elf, tables, sections)
