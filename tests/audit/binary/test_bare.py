"""Containers of sources without kernels lack nothing; one kernel or variable, or doubt, makes them count."""

from __future__ import annotations

from pathlib import Path

import lz4.block
import pytest

from orbit.audit.binary.bare import mark_bare
from orbit.audit.binary.coverage import results_of
from orbit.audit.binary.elf import Elf
from orbit.audit.binary.fatbin import containers_of
from tests.audit.support import judge
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter
from tests.writers.fatbin import Entry, write_container, write_section

NAMES = b"\0.shstrtab\0.strtab\0.symtab\0.symtab_shndx\0.nv.info\0.nv.callgraph\0.rel.action\0"
BARE = (b"\x7fELF\x02\x01\x01\x33\x07".ljust(64, b"\0") + NAMES).ljust(872, b"\0")
"""The section names of what CUDA 12 puts into libcufftw.so, at its size."""
FULL = BARE[: 64 + len(NAMES)] + b".text._Z1kv\0".ljust(1900, b"\0")
BARE_PTX = b".version 8.4\n.target sm_52\n.address_size 64\n"
SPEAKING = [
    Entry("sm_52", FULL),
    Entry("compute_52", BARE_PTX + b".visible .entry _Z1kv()\n{ ret; }\n"),
    Entry("compute_52", BARE_PTX + b".visible .global .align 4 .u32 x;\n"),
    Entry("sm_52", b"code" * 4),
    Entry("compute_52", b"\0" * 68),
    Entry("sm_52", BARE + bytes(5000)),
    Entry("sm_52", b"no block of lz4", compression="lz4"),
]


def library(*entries: Entry) -> bytes:
    return write_elf(sections=[(".nv_fatbin", write_section(write_container(*entries)))])


def is_bare(*entries: Entry) -> bool:
    data = library(*entries)
    (container,) = containers_of(Elf(data, "f"))
    return mark_bare(container, data).bare


def packed(content: bytes) -> Entry:
    """An entry compressed as nvcc does it, with the size of its content."""
    block = lz4.block.compress(content, store_size=False)
    return Entry("sm_52", block, compression="lz4", full=len(content))


def test_code_of_no_kernel_is_bare_compressed_or_not() -> None:
    assert is_bare(Entry("sm_52", BARE))
    assert is_bare(Entry("sm_52", BARE), Entry("compute_52", BARE_PTX))
    assert is_bare(packed(BARE), Entry("compute_52", BARE_PTX))
    assert not is_bare(packed(FULL))
    assert not is_bare()


@pytest.mark.parametrize("entry", SPEAKING)
def test_code_data_and_doubt_are_not(entry: Entry) -> None:
    assert not is_bare(Entry("sm_50", BARE), entry)


def test_nothing_is_asked_of_bare_containers(tmp_path: Path) -> None:
    """libcufftw.so, libnppc.so and every C++ file that went through nvcc without an architecture."""
    env = EnvironmentWriter(tmp_path / "e")
    env.add("plain", {"plain/libhost.so": library(Entry("sm_52", BARE), Entry("compute_52", BARE_PTX))})
    assert judge(env.prefix, "arch-coverage") == []
    env.add("old", {"old/libops.so": library(Entry("sm_52", FULL))})
    assert {finding.subject for finding in judge(env.prefix, "arch-coverage")} == {"old/libops.so"}


def test_bare_linked_code_does_not_speak_for_relocatable_code() -> None:
    sections = [
        (".nv_fatbin", write_section(write_container(Entry("sm_100", BARE)))),
        ("__nv_relfatbin", write_section(write_container("sm_90", "compute_90"))),
    ]
    data = write_elf(sections=sections)
    boxes = [mark_bare(container, data) for container in containers_of(Elf(data, "f"))]
    assert sorted(results_of(boxes, "10.0")) == ["ptx-jit", "sass"]
