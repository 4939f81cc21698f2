"""The readers that take bytes from anywhere, each with seeds that reach its inside. Used by fuzzing and by its test."""

from __future__ import annotations

import atexit
import functools
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from orbit.audit.dists import read_dist
from orbit.audit.dynamic import read_dynamic, read_exports
from orbit.audit.elf import Elf
from orbit.audit.fatbin import containers_of
from orbit.audit.wheels import read_wheels
from orbit.core.console import Silent
from orbit.profile.model import load_profile
from tests.writers.elf import Export, Import, write_elf
from tests.writers.fatbin import Entry, write_container, write_section
from tests.writers.wheels import Entry as Member
from tests.writers.wheels import wheel_entries, zip_bytes


@dataclass(frozen=True)
class Reader:
    """One reader: what it does with bytes, and inputs that it understands."""

    read: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]


def read_elf(data: bytes) -> None:
    """Everything that is read of an ELF file."""
    elf = Elf(data, "x")
    list(containers_of(elf))
    read_dynamic(elf)
    read_exports(elf)


def elf_seeds() -> Iterable[bytes]:
    """Small shared objects: versioned symbols, run paths, containers in each section."""
    imports = [Import("f", "V1", "libp.so.1"), Import("g"), Import("w", weak=True)]
    yield write_elf(soname="libx.so", needed=["libp.so.1"], runpath="$ORIGIN:/x", imports=imports)
    yield write_elf(soname="liby.so", rpath="/y", exports=[Export("a", "V1"), Export("b"), Export("c", "V2")])
    section = write_section(
        write_container("sm_90a", Entry("compute_90", compression="zstd")), write_container("sm_100f")
    )
    for name in (".nv_fatbin", "__nv_relfatbin", ".ldata"):
        yield write_elf(sections=[(name, section)])


def read_metadata(data: bytes) -> None:
    """A distribution whose files all hold the same bytes."""
    read_dist("lib/python3.12/site-packages/a-1.dist-info", lambda _path: data)


def metadata_seeds() -> Iterable[bytes]:
    """RECORD, METADATA, WHEEL and direct_url.json."""
    yield b'a/b.py,sha256=abc,12\n"a,b",,\n../../../bin/x,md5=1,\n/etc/passwd,,3\n'
    yield b"Name: a\nVersion: 1\nRequires-Dist: b>=1; extra == 'c'\n folded\nSummary: s\n\nbody\n"
    yield b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    yield b'{"url": "file:///x", "dir_info": {"editable": true}}'


@functools.cache
def wheel_path() -> Path:
    """A file to put archives into; gone when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="orbit-fuzz-wheel-")
    atexit.register(folder.cleanup)
    return Path(folder.name) / "demo-1.0-cp312-cp312-linux_x86_64.whl"


def read_wheel(data: bytes) -> None:
    """An archive: its directory, every member, and all that is told of a wheel."""
    wheel_path().write_bytes(data)
    read_wheels([wheel_path()], load_profile("probe"), Silent())


def wheel_seeds() -> Iterable[bytes]:
    """A wheel of every kind of member; data descriptors, zip64, and lies."""
    library = write_elf(soname="libx.so", needed=["libc.so.6"], sections=[(".nv_fatbin", write_container("sm_90a"))])
    files = {"demo/__init__.py": b"x = 1\n", "demo/_c.abi3.so": library, "demo-1.0.data/scripts/tool": b"#!python\n"}
    entries = wheel_entries("demo", files, tags=["cp312-cp312-linux_x86_64"])
    yield zip_bytes(entries)
    yield zip_bytes([replace(entry, zip64=True) for entry in entries], zip64_end=True)
    yield zip_bytes([replace(entry, descriptor=True) for entry in entries])
    yield zip_bytes([*entries, Member("../x", b"x"), Member("demo/l", b"/x", mode=0o120777), Member("demo/s", flags=1)])


READERS = {
    "elf": Reader(read_elf, elf_seeds),
    "metadata": Reader(read_metadata, metadata_seeds),
    "wheel": Reader(read_wheel, wheel_seeds),
}
