"""Releases out of bytes: text, exported values, code, version definitions, file names; and what must not be taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.audit.binary.dynamic import read_dynamic
from orbit.audit.binary.elf import Elf, open_elf
from orbit.audit.files.objects import object_of
from orbit.audit.files.releases import (
    BLOCK_BYTES,
    MAX_MATCH_BYTES,
    embedded_from,
    highest,
    number,
    read_embedded,
    read_release,
    release_from,
    wanted_patterns,
)
from orbit.audit.known.knowledge import libraries
from orbit.audit.reports.summary import library_releases
from tests.audit import real
from tests.audit.support import read
from tests.writers.elf import Export, write_elf
from tests.writers.environment import EnvironmentWriter

STORE = b"\xc7\x07"
"""movl $..., (%rdi)"""
ZERO_AND_RETURN = b"\x31\xc0\xc3"


def release(data: bytes, path: str) -> str:
    elf = Elf(data, "x")
    return read_release(elf, path, read_dynamic(elf))


def library(soname: str, text: bytes = b"", *, before: int = 0, section: str = ".rodata") -> bytes:
    return write_elf(soname=soname, sections=[(section, b"." * before + text + b"\0 rest")])


NCCL = b"NCCL version 2.28.9+cuda13.0"


@pytest.mark.parametrize(
    ("soname", "text", "expected"),
    [
        ("libnccl.so.2", NCCL, "2.28.9"),
        ("libnccl.so.2", b"NCCL version mismatch with remote peer %s\0NCCL version 2.19.3+cuda12.3", "2.19.3"),
        ("libnccl.so.2", b"NCCL version 2.27.3 compiled with CUDA 12.8", "2.27.3"),
        ("libnccl.so.2", b"needs NCCL version 2.18 or newer", ""),
        ("libcudnn_graph.so.9", b"cudnn_version_9_19_0_56_", "9.19.0"),
        ("libnvshmem_host.so.3", b"NVSHMEM v3.4.5", "3.4.5"),
        ("libnvrtc.so.13", b"Cuda compilation tools, release 13.0, V13.0.88", "13.0.88"),
        ("libother.so.1", NCCL, ""),
    ],
)
def test_text_in_read_only_data(soname: str, text: bytes, expected: str) -> None:
    assert release(library(soname, text), f"lib/{soname}") == expected


def test_text_that_lies_across_two_blocks() -> None:
    for before in (BLOCK_BYTES - 5, BLOCK_BYTES - len(NCCL), 2 * BLOCK_BYTES - 1):
        assert release(library("libnccl.so.2", NCCL, before=before), "libnccl.so.2") == "2.28.9"


def test_text_elsewhere_in_the_file_is_not_taken() -> None:
    assert release(library("libnccl.so.2", NCCL, section=".nv_fatbin.x"), "libnccl.so.2") == ""


def test_no_pattern_matches_more_than_a_block_overlaps() -> None:
    assert all(len(text) < MAX_MATCH_BYTES for family in libraries().families for text in family.texts)


def test_name_of_the_debug_file() -> None:
    data = library("libcublas.so.13", b"libcublas.so.13.4.1.2.sym", section=".gnu_debuglink")
    assert release(data, "libcublas.so.13") == "13.4.1.2"


@pytest.mark.parametrize(
    ("soname", "export", "expected"),
    [
        ("libcudnn_ops.so.9", Export("cudnn_ops_infer_version", data=bytes((0, 19, 9, 0))), "9.19.0"),
        (
            "libnvJitLink.so.13",
            Export("nvJitLinkVersion", data=STORE + b"\x0d\0\0\0\xc7\x06\0\0\0\0\xc3".ljust(70)),
            "13.0",
        ),
        ("libnccl.so.2", Export("ncclGetVersion", data=STORE + b"\x19\x59\0\0" + ZERO_AND_RETURN.ljust(70)), "2.28.9"),
        ("libnccl.so.2", Export("ncclGetVersion", data=b"\x90" * 70), ""),
        ("libcudnn_ops.so.9", Export("cudnn_ops_infer_version", data=bytes(4)), ""),
        ("libnccl.so.2", Export("ncclCommInitRank", data=STORE + b"\x19\x59\0\0\xc3"), ""),
    ],
)
def test_exported_values_and_functions(soname: str, export: Export, expected: str) -> None:
    assert release(write_elf(soname=soname, exports=[export]), soname) == expected


def test_constants_behind_the_return_are_another_functions() -> None:
    code = STORE + b"\x0d\0\0\0" + ZERO_AND_RETURN + STORE + b"\x63\0\0\0\xc3"
    data = write_elf(soname="libnvJitLink.so.13", exports=[Export("nvJitLinkVersion", data=code.ljust(70))])
    assert release(data, "libnvJitLink.so.13") == "13"


@pytest.mark.parametrize(
    ("values", "expected"),
    [([13000], "13.0"), ([12080], ""), ([13000, 13020], ""), ([13005], ""), ([], "")],
)
def test_number_in_the_code_must_be_the_only_one_of_the_major(values: list[int], expected: str) -> None:
    code = b"".join(STORE + value.to_bytes(4, "little") + ZERO_AND_RETURN for value in values)
    data = write_elf(soname="libcudart.so.13", sections=[(".text", b"\x90" + code)])
    assert release(data, "libcudart.so.13") == expected


def test_file_named_by_its_release() -> None:
    data = write_elf(soname="libcudart.so.12")
    assert release(data, "usr/local/cuda/lib64/libcudart.so.12.8.90") == "12.8.90"
    assert release(data, "usr/local/cuda/lib64/libcudart.so.12") == ""


def test_version_definitions() -> None:
    exports = [Export("a", "GLIBCXX_3.4.9"), Export("b", "GLIBCXX_3.4.30"), Export("c", "CXXABI_1.3.13")]
    assert release(write_elf(soname="libstdc++.so.6", exports=exports), "libstdc++.so.6.0.30") == "3.4.30"
    assert highest(["GLIBCXX_DEBUG", "GLIBCXX_3.4"], "GLIBCXX") == "3.4"
    assert number("2.28.9+cuda13") == (2, 28, 9, 13)


HIDDEN = {"_ZL27nvshmemi_device_lib_version": bytes((3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0))}


def embedded(path: str, **parts: object) -> tuple[tuple[str, str], ...]:
    elf = Elf(write_elf(**parts), "x")  # type: ignore[arg-type]
    return read_embedded(elf, path, read_dynamic(elf))


def test_device_half_of_nvshmem_in_a_kernel_library() -> None:
    assert embedded("deep_ep_cpp.cpython-312-x86_64-linux-gnu.so", hidden=HIDDEN) == (("NVSHMEM", "3.4.5"),)
    assert embedded("my_kernels.so", hidden=HIDDEN, needed=["libnvshmem_host.so.3"]) == (("NVSHMEM", "3.4.5"),)
    text = [(".rodata", b"x NVSHMEM v3.6.5\0")]
    assert embedded("deep_ep_cpp.so", sections=text) == (("NVSHMEM", "3.6.5"),)


def test_what_has_no_device_half() -> None:
    assert embedded("my_kernels.so", hidden=HIDDEN) == ()
    assert embedded("deep_ep_cpp.so") == ()
    assert embedded("deep_ep_cpp.so", hidden={"_ZL9something": bytes(12)}) == ()
    assert (
        embedded("lib/libnvshmem_host.so.3", soname="libnvshmem_host.so.3", sections=[(".rodata", b"NVSHMEM v3.4.5")])
        == ()
    )


def test_patterns_for_readers_of_streams() -> None:
    """What is found while bytes pass gives the release that the file gives."""
    (first, *_rest) = wanted_patterns("libnccl.so.2")
    match = first.search(b"..." + NCCL)
    assert match is not None
    assert release_from("libnccl.so.2", [b"NCCL version detected", match[0]]) == "2.28.9"
    assert release_from("libnccl.so.2", []) == ""
    assert wanted_patterns("libtorch_cpu.so") == ()
    assert release_from("libtorch_cpu.so", [NCCL]) == ""
    assert [pattern.search(b"NVSHMEM v3.4.5") is not None for pattern in wanted_patterns("deep_ep_cpp.so")] == [True]
    assert embedded_from("deep_ep_cpp.so", [b"NVSHMEM v3.4.5"]) == (("NVSHMEM", "3.4.5"),)
    assert embedded_from("libnvshmem_host.so.3", [b"NVSHMEM v3.4.5"]) == ()


def test_every_release_that_is_read_is_in_the_facts_and_in_the_report(tmp_path: Path) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    env.add("nccl", {"nvidia/nccl/lib/libnccl.so.2": library("libnccl.so.2", NCCL), "x/stubs/libnccl.so.2": b""})
    env.add("ep", {"deep_ep_cpp.so": write_elf(hidden=HIDDEN), "other.so": write_elf()})
    facts = read(env.prefix)
    assert {item.path.rpartition("/")[2]: item.release for item in facts.objects if item.release} == {
        "libnccl.so.2": "2.28.9"
    }
    assert [(row.family, row.file, row.soname, row.release) for row in library_releases(facts)] == [
        ("NCCL", "nvidia/nccl/lib/libnccl.so.2", "libnccl.so.2", "2.28.9"),
        ("NVSHMEM", "deep_ep_cpp.so", "linked into deep_ep_cpp.so", "3.4.5"),
    ]


REAL = {
    "nvidia/nccl/lib/libnccl.so.2": ("nvidia_nccl_cu13", 3),
    "nvidia/cudnn/lib/libcudnn_graph.so.9": ("nvidia_cudnn_cu13", 3),
    "nvidia/cudnn/lib/libcudnn_ops.so.9": ("nvidia_cudnn_cu13", 3),
    "nvidia/nvshmem/lib/libnvshmem_host.so.3": ("nvidia_nvshmem_cu13", 3),
    "nvidia/cu13/lib/libcudart.so.13": ("nvidia_cuda_runtime", 2),
    "nvidia/cu13/lib/libcublas.so.13": ("nvidia_cublas", 3),
    "nvidia/cu13/lib/libcublasLt.so.13": ("nvidia_cublas", 3),
    "nvidia/cu13/lib/libnvrtc.so.13": ("nvidia_cuda_nvrtc", 3),
    "nvidia/cu13/lib/libnvJitLink.so.13": ("nvidia_nvjitlink", 2),
}


@pytest.mark.integration
@pytest.mark.parametrize(("path", "owner"), REAL.items())
def test_real_libraries_state_the_release_of_their_distribution(path: str, owner: tuple[str, int]) -> None:
    name, numbers = owner
    (folder,) = real.site_packages().glob(f"{name}-*.dist-info")
    version = folder.name.removesuffix(".dist-info").rpartition("-")[2]
    with open_elf(real.site_packages() / path, path) as elf:
        assert number(object_of(elf, path).release)[:numbers] == number(version)[:numbers]
