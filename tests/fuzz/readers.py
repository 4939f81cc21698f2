"""The readers that take bytes from anywhere, each with seeds that reach its inside. Used by fuzzing and by its test."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from orbit.audit.dists import read_dist
from orbit.audit.dynamic import read_dynamic, read_exports
from orbit.audit.elf import Elf
from orbit.audit.fatbin import containers_of
from tests.writers.elf import Export, Import, write_elf
from tests.writers.fatbin import Entry, write_container, write_section


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


READERS = {
    "elf": Reader(read_elf, elf_seeds),
    "metadata": Reader(read_metadata, metadata_seeds),
}
