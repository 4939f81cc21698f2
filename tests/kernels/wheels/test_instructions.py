"""orbit.kernels.wheels.{instructions,instructions_worker}: the table means what nvdisasm says."""

from __future__ import annotations

import contextlib
import io
import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from orbit.audit.binary.elf import MalformedElf, open_elf
from orbit.audit.binary.fatbin import containers_of
from orbit.audit.deep.depth_worker import REQUEST
from orbit.audit.facts import SharedObject
from orbit.core.proc import run
from orbit.kernels.wheels import instructions
from orbit.kernels.wheels.instructions import (
    Counted,
    by_family,
    count_instructions,
    disassembled,
    families_of,
    load_families,
    operations,
)
from orbit.kernels.wheels.instructions_worker import serve
from tests.audit.real import site_packages
from tests.writers.cubin import cubin_entry, write_cubin
from tests.writers.elf import write_elf
from tests.writers.fatbin import Entry, write_container, write_section

NUMBERS = {name: number for family in load_families() for name, number in family.operations.items()}


def body(*names: str) -> bytes:
    """Machine code with one instruction of each name; the bits above the operation are those of nothing."""
    return b"".join(struct.pack("<QQ", 0x7000 | NUMBERS.get(name, 0x14D), 0) for name in names)


def test_the_table_is_sound() -> None:
    assert {family.name for family in load_families()} >= {"mma", "wgmma", "tcgen05.mma", "tma"}
    for major in (9, 10):
        numbers = [
            number for family in load_families() if major in family.majors for number in set(family.operations.values())
        ]
        assert len(numbers) == len(set(numbers))
    assert all(0 < number < 0x200 for number in NUMBERS.values())
    assert {family.name for family in families_of("sm_90a")} & {"wgmma", "tcgen05.mma"} == {"wgmma"}
    assert {family.name for family in families_of("sm_100a")} & {"wgmma", "tcgen05.mma"} == {"tcgen05.mma"}
    assert families_of("sm_80") == families_of("nonsense") == ()


def test_operations_of_all_kernels_of_a_cubin() -> None:
    cubin = write_cubin({"f": body("HGMMA", "HGMMA", "EXIT"), "g": body("UTMALDG", "QGMMA", "HMMA")})
    assert by_family(operations(cubin), "sm_90a") == {"wgmma": 3, "tma": 1, "mma": 1}
    assert sum(operations(cubin).values()) == 6
    assert by_family(operations(cubin), "sm_100a") == {"tma": 1, "mma": 1}
    with pytest.raises(MalformedElf):
        operations(b"no cubin")


def library(tmp_path: Path, *containers: bytes) -> tuple[SharedObject, Path]:
    path = tmp_path / "_c.so"
    path.write_bytes(write_elf(sections=[(".nv_fatbin", write_section(*containers))]))
    with open_elf(path) as elf:
        return SharedObject("thing/_c.so", 62, tuple(containers_of(elf)), None), path


@contextlib.contextmanager
def opened(path: Path) -> Iterator[bytes]:
    yield path.read_bytes()


BOX = write_container(
    cubin_entry("sm_90a", {"f": body("HGMMA", "EXIT")}),
    cubin_entry("sm_100a", {"f": body("UTCHMMA", "LDTM", "UTMALDG", "EXIT")}),
)
PLAIN = write_container(cubin_entry("sm_90a", {"g": body("EXIT")}), cubin_entry("sm_80", {"g": body("EXIT")}))


def test_a_file_by_architecture(tmp_path: Path) -> None:
    item, path = library(tmp_path, BOX, PLAIN, BOX)
    rows = count_instructions([item], ("sm_90a", "sm_100a"), lambda _path: opened(path))
    assert [(row.file, row.arch, row.images, row.instructions) for row in rows] == [
        ("thing/_c.so", "sm_100a", 2, 8),
        ("thing/_c.so", "sm_90a", 3, 5),
    ]
    assert rows[0].families == {"tcgen05.memory": 2, "tcgen05.mma": 2, "tma": 2}
    assert (rows[1].families, rows[1].images_with) == ({"wgmma": 2}, {"wgmma": 2})
    one = count_instructions([item], ("sm_90a", "sm_100a"), lambda _path: opened(path), workers=1)
    assert one == rows
    assert count_instructions([], ("sm_90a",), lambda _path: opened(path)) == ()


def test_an_image_that_cannot_be_read_is_a_problem_of_its_row(tmp_path: Path) -> None:
    broken = write_container(Entry("sm_90a", b"not a cubin" * 9), Entry("sm_100a", b"xx", "zstd", full=99))
    item, path = library(tmp_path, BOX, broken)
    rows = count_instructions([item], ("sm_90a", "sm_100a"), lambda _path: opened(path))
    assert [(row.images, len(row.problems)) for row in rows] == [(2, 1), (2, 1)]
    assert rows[1].families == {"wgmma": 1}


def test_a_disassembler_that_disagrees_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    item, path = library(tmp_path, BOX)
    monkeypatch.setattr(instructions, "disassembled", lambda _cubin, _arch, _tool: {"wgmma": 1})
    rows = count_instructions([item], ("sm_90a", "sm_100a"), lambda _path: opened(path), nvdisasm=Path("nvdisasm"))
    assert [(row.arch, row.checked, len(row.problems)) for row in rows] == [("sm_100a", 0, 1), ("sm_90a", 1, 0)]


def test_the_worker_answers_in_order_and_ends_with_a_cut_request() -> None:
    cubin = write_cubin({"f": body("HGMMA")})
    request = REQUEST.pack(0, 0, 0, len(cubin)) + cubin
    out = io.BytesIO()
    serve(io.BytesIO(request + REQUEST.pack(0, 0, 0, 1) + b"x"), out)
    first, second = (msgspec.json.decode(line, type=Counted) for line in out.getvalue().splitlines())
    assert first == Counted({0x1F0: 1}, "")
    assert second.problem
    with pytest.raises(ValueError, match="cut short"):
        serve(io.BytesIO(request[:-1]), io.BytesIO())


# --- the real tools ---------------------------------------------------------------------------------------------------


def tool(name: str) -> Path:
    """A program of the CUDA wheels in ORBIT_TEST_ENV."""
    found = site_packages() / "nvidia" / "cu13" / "bin" / name
    if not os.access(found, os.X_OK):
        pytest.skip(f"no {name} in the environment of ORBIT_TEST_ENV")
    return found


MMA = (
    'extern "C" __global__ void mma(float* d, const unsigned* a) { float c0 = 0, c1 = 0, c2 = 0, c3 = 0; asm volatile('
    '"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"'
    ': "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]));'
    "d[threadIdx.x] = c0 + c1 + c2 + c3; }"
)
WGMMA = (
    'extern "C" __global__ void wgmma(float* d, unsigned long long a, unsigned long long b) {{ float c0 = 0, c1 = 0, '
    'c2 = 0, c3 = 0; asm volatile("wgmma.fence.sync.aligned;"); asm volatile('
    '"wgmma.mma_async.sync.aligned.m64n8k{k}.f32.{t}.{t} {{%0,%1,%2,%3}},%4,%5,1,1,1{major};"'
    ': "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "l"(a), "l"(b)); asm volatile('
    '"wgmma.commit_group.sync.aligned;wgmma.wait_group.sync.aligned 0;"); d[threadIdx.x] = c0 + c1 + c2 + c3; }}'
)
TCGEN05 = (
    'extern "C" __global__ void t(unsigned long long a, unsigned long long b, unsigned i, unsigned d) {{ asm volatile('
    '"{{.reg .pred p; setp.ne.b32 p,%3,0; tcgen05.mma.cta_group::1.kind::{kind} [%0],%1,%2,%3,{scale}p;}}"'
    ':: "r"(d), "l"(a), "l"(b), "r"(i)); }}'
)
LOAD = (
    'extern "C" __global__ void t(const void* map, void* to) {{ __shared__ alignas(1024) char s[4096]; '
    "__shared__ alignas(8) unsigned long long bar; unsigned sp = __cvta_generic_to_shared(s), "
    'bp = __cvta_generic_to_shared(&bar); asm volatile("{text};" :: "r"(sp), "l"(map), "r"(0), "r"(bp), "l"(to) '
    ': "memory"); }}'
)
BULK = "mbarrier::complete_tx::bytes"
SOURCES = {
    ("90a", "mma", 1): MMA,
    ("100a", "mma", 1): MMA,
    ("90a", "wgmma", 1): WGMMA.format(k=16, t="bf16", major=",0,0"),
    ("90a", "wgmma", 2): WGMMA.format(k=32, t="e4m3", major=""),
    ("90a", "wgmma", 3): WGMMA.format(k=8, t="tf32", major=""),
    ("100a", "tcgen05.mma", 1): TCGEN05.format(kind="f16", scale=""),
    ("100a", "tcgen05.mma", 2): TCGEN05.format(kind="tf32", scale=""),
    ("100a", "tcgen05.mma", 3): TCGEN05.format(kind="f8f6f4", scale=""),
    ("100a", "tcgen05.mma", 4): TCGEN05.format(kind="i8", scale=""),
    ("100a", "tcgen05.mma", 5): TCGEN05.format(kind="mxf8f6f4.block_scale", scale="[%3],[%3],"),
    ("100a", "tcgen05.mma", 6): TCGEN05.format(kind="mxf4.block_scale.scale_vec::2X", scale="[%3],[%3],"),
    ("100a", "tcgen05.memory", 1): LOAD.format(
        text="tcgen05.cp.cta_group::1.128x256b [%0],%1; tcgen05.st.sync.aligned.32x32b.x1.b32 [%0],{{%2}}"
    ).replace("{{", "{").replace("}}", "}"),
    ("100a", "tcgen05.memory", 2): LOAD.format(
        text="tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%3]"
    ),
    **{
        (arch, "tma", 1): LOAD.format(
            text=f"cp.async.bulk.tensor.2d.shared::cluster.global.tile.{BULK} [%0],[%1,{{%2,%2}}],[%3]"
        )
        for arch in ("90a", "100a")
    },
    **{
        (arch, "tma", 2): LOAD.format(text="cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%1,{%2,%2}],[%0]")
        for arch in ("90a", "100a")
    },
    **{
        (arch, "bulk", 1): LOAD.format(text=f"cp.async.bulk.shared::cluster.global.{BULK} [%0],[%4],1024,[%3]")
        for arch in ("90a", "100a")
    },
    **{
        (arch, "cp.async", 1): LOAD.format(text="cp.async.ca.shared.global [%0],[%4],16") for arch in ("90a", "100a")
    },
}  # fmt: skip


@pytest.mark.integration
@pytest.mark.parametrize(("arch", "family", "number"), list(SOURCES))
def test_one_instruction_compiled(tmp_path: Path, arch: str, family: str, number: int) -> None:
    """The compiler makes an instruction of the family of it, and nvdisasm and the table count the same."""
    (tmp_path / "a.cu").write_text(SOURCES[arch, family, number])
    argv = [str(tool("nvcc")), "-cubin", f"-arch=sm_{arch}", "-o", str(tmp_path / "a.cubin"), str(tmp_path / "a.cu")]
    subprocess.run(argv, check=True)
    cubin = (tmp_path / "a.cubin").read_bytes()
    ours = by_family(operations(cubin), f"sm_{arch}")
    assert ours.get(family, 0) >= 1
    assert ours == disassembled(cubin, f"sm_{arch}", tool("nvdisasm"))
    assert not run([tool("nvdisasm"), "-c", tmp_path / "a.cubin"], doing="listing").stderr
