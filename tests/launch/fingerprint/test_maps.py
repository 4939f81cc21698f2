"""Which libraries are mapped."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orbit.launch.fingerprint.maps import Mapped, mapped, soname
from orbit.launch.fingerprint.spoken import read_maps

MAPS = """\
55d0a0000000-55d0a0001000 r-xp 00000000 08:01 11 /opt/orbit/bin/python3.12
7f0000000000-7f0000001000 r--p 00000000 08:01 12 /opt/orbit/lib/liba.so.1
7f0000001000-7f0000002000 r-xp 00001000 08:01 12 /opt/orbit/lib/liba.so.1
7f0000002000-7f0000003000 rw-p 00002000 08:01 12 /opt/orbit/lib/liba.so.1
7f0000010000-7f0000011000 r-xp 00000000 00:2b 13 /opt/my folder/libb.so
7f0000020000-7f0000021000 r-xp 00000000 08:01 14 /opt/orbit/lib/libc\\012d.so
7f0000030000-7f0000031000 r-xp 00000000 08:01 15 /opt/orbit/lib/libold.so.2 (deleted)
7f0000040000-7f0000041000 r--p 00000000 08:01 16 /usr/lib/locale/locale-archive
7f0000050000-7f0000051000 rwxs 00000000 00:06 17 /dev/nvidia0
7f0000060000-7f0000061000 r-xp 00000000 00:01 18 /memfd:jit (deleted)
7f0000070000-7f0000071000 r-xp 00000000 00:00 0
7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0 [vdso]
garbage
"""


def test_files_with_code_are_found_once_and_nothing_else_is() -> None:
    assert mapped(MAPS, program="/opt/orbit/bin/python3.12") == (
        Mapped(path="/opt/my folder/libb.so"),
        Mapped(path="/opt/orbit/lib/liba.so.1"),
        Mapped(path="/opt/orbit/lib/libc\nd.so"),
        Mapped(path="/opt/orbit/lib/libold.so.2", deleted=True),
    )
    assert mapped("") == ()


def test_this_process_has_its_c_library_mapped() -> None:
    names = {soname(each.path) for each in mapped(read_maps())}
    assert "libc.so.6" in names


def test_a_file_that_is_no_library_has_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "x.so").write_bytes(b"nothing")
    (tmp_path / "y.so.1").write_bytes(b"\x7fELF" + b"\0" * 60)
    assert soname(str(tmp_path / "x.so")) == "x.so"
    assert soname(str(tmp_path / "y.so.1")) == "y.so.1"
    assert soname(str(tmp_path / "none.so")) == "none.so"


def test_a_library_that_was_replaced_while_it_is_mapped_shows(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    source, library = tmp_path / "x.c", tmp_path / "libx.so.7"
    source.write_text("int x(void) { return 1; }\n")
    words = [compiler, "-shared", "-fPIC", "-Wl,-soname,libx.so.7", "-o", str(library), str(source)]
    subprocess.run(words, check=True)
    assert soname(str(library)) == "libx.so.7"
    ctypes.CDLL(str(library))
    assert Mapped(path=str(library)) in mapped(read_maps(), program=sys.executable)
    library.unlink()
    assert Mapped(path=str(library), deleted=True) in mapped(read_maps())
