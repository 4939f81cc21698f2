"""orbit.kernels.wheels.{compare,binaries}: pairs of wheels that differ for one known reason each."""

from __future__ import annotations

import struct
import subprocess
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest

from orbit.errors import InputError
from orbit.kernels.wheels.archive import write_wheel
from orbit.kernels.wheels.binaries import compare_binaries, only_moved
from orbit.kernels.wheels.causes import CAUSES
from orbit.kernels.wheels.compare import Comparison, by_cause, compare_wheels
from orbit.kernels.wheels.compare_text import render_comparison
from tests.audit.real import site_packages
from tests.kernels.wheels.support import FILES, INFO, compiled, lay_out
from tests.writers.cubin import cubin_entry, works, write_cubin
from tests.writers.elf import write_elf
from tests.writers.fatbin import Entry, write_container, write_section
from tests.writers.wheels import Entry as Member
from tests.writers.wheels import zip_bytes

WHERE = ("/tmp/one", "/tmp/another-folder")


def compare(tmp_path: Path, left: Mapping[str, bytes], right: Mapping[str, bytes]) -> Comparison:
    for name, files in (("left", left), ("right", right)):
        write_wheel(tmp_path / f"{name}.whl", lay_out(tmp_path / name, {**FILES, **files}))
    return compare_wheels(tmp_path / "left.whl", tmp_path / "right.whl")


def one_binary(tmp_path: Path, left: bytes, right: bytes) -> Comparison:
    return compare(tmp_path, {"thing/_c.so": left}, {"thing/_c.so": right})


def test_equal_wheels(tmp_path: Path) -> None:
    found = compare(tmp_path, {}, {})
    assert (found.identical, found.reproduced, found.equal, found.members, found.causes) == (True, True, 5, (), ())
    assert "equal to the byte, 5 members" in render_comparison(found)


def rodata(text: str) -> bytes:
    return write_elf(sections=[(".rodata", b"\1\2" + text.encode() + b"\0")], exports=[])


@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (lambda side: rodata(f"{WHERE[side]}/src/x.cpp"), "build-folder"),
        (lambda side: rodata(f"Nov {29 + side} 2026"), "build-time"),
        (lambda side: rodata(f"tmpxft_0000646{side}_00000000-6_x.cpp"), "temporary-name"),
        (lambda side: rodata(f"_INTERNAL_0eb2622{side}_4_x_cu_d9cc662b"), "internal-name"),
        (lambda side: rodata(f"GCC: (GNU) 1{side}.1.0"), "compiler"),
        (lambda side: write_elf(sections=[(".note.gnu.build-id", bytes([side]) * 20)]), "build-id"),
        (lambda side: rodata(("fast", "precise")[side]), "data"),
        (lambda side: write_elf(sections=[(".rodata", bytes([side]) * 20)]), "data"),
        (lambda side: write_elf(sections=[(".text", bytes([side]) * 64)]), "code"),
        (lambda side: write_elf(sections=[(".rodata", b"x"), (".extra", b"y")][: 1 + side]), "missing"),
    ],
)
def test_one_reason_at_a_time_in_host_code(tmp_path: Path, make: Callable[[int], bytes], cause: str) -> None:
    found = one_binary(tmp_path, make(0), make(1))
    assert set(found.causes) - {"record", "moved"} == {cause}
    assert {member.name for member in found.members} == {"thing/_c.so", f"{INFO}/RECORD"}
    assert found.reproduced == (cause not in ("data", "code", "missing"))
    text = render_comparison(found)
    assert CAUSES[cause] in text
    assert ("DIFFERENT" in text) != found.reproduced
    assert msgspec.json.decode(msgspec.json.encode(found), type=Comparison) == found


def device(*entries: Entry) -> bytes:
    return write_elf(sections=[(".nv_fatbin", write_section(write_container(*entries)))])


def changed(code: bytes) -> bytes:
    return code[:32] + bytes([code[32] ^ 1]) + code[33:]


def test_device_code_is_compared_by_image_and_kernel(tmp_path: Path) -> None:
    same = cubin_entry("sm_90a", {"gemm": works(), "norm": works()})
    left, right = works(), changed(works())
    found = one_binary(
        tmp_path,
        device(same, cubin_entry("sm_100a", {"gemm": left, "norm": works()})),
        device(same, cubin_entry("sm_100a", {"gemm": right, "norm": works()})),
    )
    (member, _record) = sorted(found.members, key=lambda item: item.name != "thing/_c.so")
    assert member.binary is not None
    (image,) = member.binary.images
    assert (image.arch, image.container, image.kernels, image.causes) == ("sm_100a", 0, ("gemm",), ("code",))
    (section,) = image.sections
    assert (section.name, section.differing_bytes, section.first, section.left_bytes) == (
        ".text.gemm",
        1,
        32,
        len(left),
    )
    assert not found.reproduced
    assert "kernel gemm" in render_comparison(found)


def test_kernels_are_matched_without_their_internal_names(tmp_path: Path) -> None:
    names = [f"_ZN40_GLOBAL__N__0eb2622{n}_8_probe_cu_d9cc662b6kernelEv" for n in (1, 2)]
    found = one_binary(tmp_path, *(device(cubin_entry("sm_90a", {name: works()})) for name in names))
    assert set(found.causes) - {"record", "moved"} == {"internal-name"}
    assert found.reproduced


def test_an_image_that_only_one_has(tmp_path: Path) -> None:
    first, second = cubin_entry("sm_90a", {"f": works()}), cubin_entry("sm_100a", {"f": works()})
    found = one_binary(tmp_path, device(first, second), device(first))
    assert "missing" in found.causes
    binary = next(member.binary for member in found.members if member.binary)
    assert [(image.arch, image.causes) for image in binary.images] == [("sm_100a", ("missing",))]


def test_the_same_code_packed_in_two_ways(tmp_path: Path) -> None:
    import lz4.block
    import zstandard

    code = write_cubin({"f": works()})
    zstd = Entry("sm_90a", zstandard.ZstdCompressor().compress(code), "zstd", full=len(code))
    block = Entry("sm_90a", lz4.block.compress(code, store_size=False), "lz4", full=len(code))
    found = one_binary(tmp_path, device(zstd), device(block))
    assert (set(found.causes) - {"record", "moved"}, found.reproduced) == ({"packing"}, True)


@pytest.mark.parametrize(
    ("one", "two", "cause"),
    [
        (b'.file 1 "/tmp/a/x.cu"\n.entry f\nadd', b'.file 1 "/tmp/bb/x.cu"\n.entry f\nadd', "build-folder"),
        (b".entry f\nadd", b".entry f\nsub", "code"),
    ],
)
def test_ptx_is_compared_by_line(tmp_path: Path, one: bytes, two: bytes, cause: str) -> None:
    found = one_binary(tmp_path, device(Entry("compute_90", one)), device(Entry("compute_90", two)))
    assert set(found.causes) - {"record", "moved"} == {cause}


def test_members_and_the_archive_itself(tmp_path: Path) -> None:
    found = compare(tmp_path, {"thing/a.py": b"x = 1\n", "thing/only.py": b""}, {"thing/a.py": b"x = 2\n"})
    assert by_cause(found)["missing"] == ("thing/only.py",)
    assert by_cause(found)["data"] == ("thing/a.py",)
    assert by_cause(found)["record"] == (f"{INFO}/RECORD",)
    text = render_comparison(found)
    assert "  - x = 1" in text
    assert "  + x = 2" in text
    assert "none" in text


@pytest.mark.parametrize(
    ("left", "right", "cause"),
    [
        ([Member("a", b"1"), Member("b", b"2")], [Member("b", b"2"), Member("a", b"1")], "member-order"),
        ([Member("a", b"1" * 99)], [Member("a", b"1" * 99, deflate=True)], "packing"),
        ([Member("a", b"1")], [Member("a", b"1", mode=0o100755)], "member-mode"),
        ([Member("a", b"1")], [Member("a", b"1", descriptor=True)], "unknown"),
    ],
)
def test_what_differs_in_the_archive_alone(tmp_path: Path, left: list[Member], right: list[Member], cause: str) -> None:
    (tmp_path / "l.whl").write_bytes(zip_bytes(left))
    (tmp_path / "r.whl").write_bytes(zip_bytes(right))
    found = compare_wheels(tmp_path / "l.whl", tmp_path / "r.whl")
    assert (found.archive, found.members, found.reproduced) == ((cause,), (), cause != "unknown")
    assert CAUSES[cause] in render_comparison(found)


def test_dates_of_members(tmp_path: Path) -> None:
    for name, year in (("l", 1980), ("r", 2026)):
        with zipfile.ZipFile(tmp_path / f"{name}.whl", "w") as archive:
            archive.writestr(zipfile.ZipInfo("a", (year, 1, 1, 0, 0, 0)), b"x")
    assert compare_wheels(tmp_path / "l.whl", tmp_path / "r.whl").archive == ("member-date",)


def test_damaged_wheels_are_refused(tmp_path: Path) -> None:
    (tmp_path / "l.whl").write_bytes(zip_bytes([Member("a", b"1")]))
    (tmp_path / "r.whl").write_bytes(zip_bytes([Member("a", b"1", crc=7)]))
    with pytest.raises(InputError, match="damaged"):
        compare_wheels(tmp_path / "l.whl", tmp_path / "r.whl")
    (tmp_path / "r.whl").write_bytes(zip_bytes([Member("a", b"1"), Member("a", b"2")]))
    with pytest.raises(InputError, match="twice"):
        compare_wheels(tmp_path / "l.whl", tmp_path / "r.whl")


def test_machine_code_whose_distances_changed() -> None:
    code = bytes(range(64)) * 4
    call = bytearray(code)
    struct.pack_into("<i", call, 100, struct.unpack_from("<i", code, 100)[0] + 24)
    assert only_moved(code, bytes(call), 24)
    assert not only_moved(code, bytes(call), 23)
    assert not only_moved(code, bytes(call), 0)
    call[7] ^= 0x80
    assert not only_moved(code, bytes(call), 24)
    assert not only_moved(code, code[:-1], 24)


SOURCE = """
#include <stdio.h>
#include <assert.h>
int f(int x) { assert(x > 0); printf("%s %d", __FILE__, x); return x OPERATION 3; }
"""


def test_a_compiler_in_two_folders(tmp_path: Path) -> None:
    """Really compiled twice: by absolute path it differs and the reason is named, with a prefix map it does not."""
    paths = [tmp_path / "one", tmp_path / "another-longer-folder"]
    for path in paths:
        compiled(path, SOURCE, "-DOPERATION=+", "-g", str(path / "a.c"), "-O1", "-Wl,--allow-multiple-definition")
    found = compare_binaries(*(path / "a.so" for path in paths))
    assert "build-folder" in found.causes
    assert not {"code", "data", "missing"} & set(found.causes)
    assert any(str(tmp_path / "one") in text for text in found.paths_left)
    for path in paths:
        compiled(path, SOURCE, "-DOPERATION=+", f"-ffile-prefix-map={path}=.", "-g", "-O1")
    assert (paths[0] / "a.so").read_bytes() == (paths[1] / "a.so").read_bytes()
    compiled(paths[1], SOURCE, "-DOPERATION=-", f"-ffile-prefix-map={paths[1]}=.", "-g", "-O1")
    assert "code" in compare_binaries(*(path / "a.so" for path in paths)).causes


CUDA = """
namespace { __device__ float half_of(float x) { return x OPERATION 0.5f; } }
__global__ static void scale(float* data) { data[threadIdx.x] = half_of(data[threadIdx.x]); }
void launch(float* data) { scale<<<1, 32>>>(data); }
"""


@pytest.mark.integration
def test_nvcc_in_two_folders(tmp_path: Path) -> None:
    """nvcc as it is leaves its folder and process number in a library; another operation is another result."""
    nvcc = site_packages() / "nvidia" / "cu13" / "bin" / "nvcc"
    if not nvcc.is_file():
        pytest.skip("no nvcc in the environment of ORBIT_TEST_ENV")
    built = []
    for name, operation in (("one", "*"), ("another-longer", "*"), ("real", "+")):
        folder = lay_out(tmp_path / name, {"a.cu": CUDA.encode()})
        flags = ["-lineinfo", "-gencode=arch=compute_90a,code=sm_90a", "-gencode=arch=compute_100a,code=sm_100a"]
        files = ["-c", str(folder / "a.cu"), "-o", str(folder / "a.o")]
        argv = [str(nvcc), *flags, f"-DOPERATION={operation}", "-Xcompiler=-fPIC", *files]
        subprocess.run(argv, check=True, cwd=folder)
        subprocess.run(["g++", "-shared", folder / "a.o", "-o", folder / "a.so"], check=True)
        built.append(folder / "a.so")
    found = compare_binaries(built[0], built[1])
    assert {"internal-name", "build-folder"} <= set(found.causes)
    assert not {"code", "data", "missing"} & set(found.causes)
    other = compare_binaries(built[0], built[2])
    assert "code" in other.causes
    assert {image.arch for image in other.images if "code" in image.causes} == {"sm_90a", "sm_100a"}
