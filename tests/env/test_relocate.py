"""orbit.env.relocate: bytes do not move, tails stay, debug sections go, and what is left is found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orbit.audit.elf import Elf
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


def test_debug_sections_go_and_the_rest_keeps_index_and_content() -> None:
    sections = [(".nv_fatbin", b"fat" * 100), (".debug_info", b"/home/ann/src" * 50), (".comment", b"GCC: 12")]
    before = write_elf(sections=sections, soname="libx.so", needed=["libc.so.6"], runpath="$ORIGIN")
    after = drop_debug_sections(before, "x")
    if after == before:  # the writer may lay loaded parts behind the section: then nothing may be cut
        last = max(s.offset + s.file_size for s in Elf(before, "x").segments())
        debug = next(s for s in Elf(before, "x").sections() if s.name == ".debug_info")
        assert last > debug.offset
        return
    assert b"/home/ann" not in after
    old = {s.name: i for i, s in enumerate(Elf(before, "x").sections())}
    new = Elf(after, "x")
    for index, section in enumerate(new.sections()):
        if section.name in (".nv_fatbin", ".comment"):
            assert old[section.name] == index
            assert after[section.offset : section.offset + section.size] == dict(sections)[section.name]


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
    assert list(find_paths(tmp_path, [b"/home/ann"], skip=frozenset({"sub/binary", "link", "folder"}))) == []


def test_elf_files_are_told_from_links_and_text(tmp_path: Path) -> None:
    (tmp_path / "elf").write_bytes(write_elf())
    (tmp_path / "text").write_text("no")
    (tmp_path / "link").symlink_to("elf")
    assert [name for name in ("elf", "text", "link", "none") if is_elf_file(tmp_path / name)] == ["elf"]
