"""orbit.env.relocate: bytes do not move, tails stay, debug sections go, and what is left is found."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from orbit.audit.binary.elf import HEADER, Elf
from orbit.env.relocate import blank_path, drop_debug_sections, find_paths, is_elf_file, replace_text
from tests.writers.elf import write_elf


def test_a_blanked_path_keeps_length_and_tail() -> None:
    data = b"\0/home/ann/.pyenv/versions/3.12.1\0/home/ann/.pyenv/versions/3.12.1/lib\0end"
    blanked = blank_path(data, b"/home/ann/.pyenv/versions/3.12.1", b"/opt/orbit")
    assert len(blanked) == len(data)
    assert b"ann" not in blanked
    assert blanked.index(b"3.12.1\0") == data.index(b"3.12.1\0")
    assert blanked.count(b"/opt/orbit/") == 2
    assert blanked.endswith(b"/3.12.1/lib\0end")


def test_a_path_shorter_than_its_stand_in_becomes_slashes() -> None:
    assert blank_path(b"<<</ab/cd>>>", b"/ab/cd", b"/opt/orbit") == b"<<<////cd>>>".replace(b"////cd", b"///" + b"/cd")


def test_text_replacements_do_not_cut_each_other() -> None:
    out = replace_text(b"/a/b/c /a/b /a", {b"/a": b"1", b"/a/b/c": b"3", b"/a/b": b"2"})
    assert out == b"3 2 1"


SECTIONS = [(".nv_fatbin", b"fat" * 100), (".debug_info", b"/home/ann/src" * 50), (".comment", b"GCC: 12")]


def test_debug_sections_go_and_the_rest_keeps_index_and_content() -> None:
    data = bytearray(write_elf(sections=SECTIONS, soname="libx.so", needed=["libc.so.6"], runpath="$ORIGIN"))
    debug = next(s for s in Elf(bytes(data), "x").sections() if s.name == ".debug_info")
    first_segment = HEADER.unpack_from(data)[5]
    struct.pack_into("<QQ", data, first_segment + 32, debug.offset, debug.offset)  # as linkers do: not loaded
    before = bytes(data)
    after = drop_debug_sections(before, "x")
    assert b"/home/ann" not in after
    old = [(s.name, s.size) for s in Elf(before, "x").sections() if s.name != ".debug_info"]
    kept = [(s.name, s.size) for s in Elf(after, "x").sections()]
    assert kept.pop([s.name for s in Elf(before, "x").sections()].index(".debug_info")) == ("", 0)
    assert kept == old
    for section in Elf(after, "x").sections():
        if section.name in (".nv_fatbin", ".comment"):
            assert after[section.offset : section.offset + section.size] == dict(SECTIONS)[section.name]
    assert drop_debug_sections(after, "x") == after


def test_a_file_whose_loaded_part_reaches_over_its_debug_sections_is_left_alone() -> None:
    data = write_elf(sections=SECTIONS)
    assert drop_debug_sections(data, "x") == data


def test_a_compiled_library_still_loads_without_its_debug_sections(tmp_path: Path) -> None:
    source = tmp_path / "x.c"
    source.write_text("int answer(void) { return 42; }\n")
    library = tmp_path / "x.so"
    try:
        subprocess.run(["gcc", "-g", "-shared", "-fPIC", "-o", library, source], check=True)
    except FileNotFoundError:
        pytest.skip("no gcc")
    before = library.read_bytes()
    assert os.fsencode(tmp_path) in before
    after = drop_debug_sections(before, "x.so")
    assert os.fsencode(tmp_path) not in after
    assert len(after) < len(before)
    library.write_bytes(after)
    program = f"import ctypes; print(ctypes.CDLL({str(library)!r}).answer())"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "42\n"
    assert drop_debug_sections(after, "x.so") == after


def test_paths_are_found_in_bytes_and_link_targets(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/binary").write_bytes(b"\0" * 5000 + b"/home/ann/x\0")
    (tmp_path / "sub/clean").write_bytes(b"/home/bob")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "link").symlink_to("/home/ann")
    (tmp_path / "folder").symlink_to("/home/ann/y")
    found = list(find_paths(tmp_path, [b"/home/ann"]))
    assert found == ["folder: /home/ann", "link: /home/ann", "sub/binary: /home/ann"]
    assert list(find_paths(tmp_path, [b"/ann", b"/nobody"], ["link", "empty"])) == ["link: /ann"]


def test_elf_files_are_told_from_links_and_text(tmp_path: Path) -> None:
    (tmp_path / "elf").write_bytes(write_elf())
    (tmp_path / "text").write_text("no")
    (tmp_path / "link").symlink_to("elf")
    assert [name for name in ("elf", "text", "link", "none") if is_elf_file(tmp_path / name)] == ["elf"]
