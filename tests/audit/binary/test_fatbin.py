"""The container reader: what it sees in written files, what it refuses, and the golden counts of the real wheels."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbit.audit.binary.elf import Elf, MalformedBinary, MalformedElf
from orbit.audit.binary.fatbin import Container, MalformedFatbin, containers_of, read_containers, walk_section
from orbit.core.proc import run
from tests.audit.real import site_packages
from tests.writers.elf import write_elf
from tests.writers.fatbin import Entry, write_container, write_section

ARCHS = st.sampled_from(["sm_80", "sm_90", "sm_90a", "sm_100f", "sm_103a", "sm_120", "compute_90", "compute_100a"])
ENTRIES = st.builds(
    Entry,
    arch=ARCHS,
    payload=st.binary(max_size=40),
    compression=st.sampled_from(["", "lz4", "zstd"]),
    header_bytes=st.sampled_from([64, 80, 96, 112]),
)


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "lib.so"
    path.write_bytes(data)
    return path


def test_reads_both_sections_and_every_header_size(tmp_path: Path) -> None:
    plain = write_container("sm_90a", Entry("sm_100a", header_bytes=96), Entry("compute_120", header_bytes=80))
    rdc = write_container(Entry("sm_120f", b"x" * 13, compression="zstd", header_bytes=112))
    data = write_elf(sections=[(".nv_fatbin", write_section(plain, plain)), ("__nv_relfatbin", write_section(rdc))])
    containers = read_containers(written(tmp_path, data))
    assert [(c.section, c.index, [i.arch for i in c.images]) for c in containers] == [
        (".nv_fatbin", 0, ["sm_90a", "sm_100a", "compute_120"]),
        (".nv_fatbin", 1, ["sm_90a", "sm_100a", "compute_120"]),
        ("__nv_relfatbin", 0, ["sm_120f"]),
    ]
    image = containers[2].images[0]
    assert (image.kind, image.size, image.uncompressed_size, image.compression) == ("elf", 13, 52, "zstd")
    assert data[image.offset : image.offset + image.size] == b"x" * 13
    assert containers[0].images[2].kind == "ptx"


def test_file_without_device_code_has_no_containers(tmp_path: Path) -> None:
    assert read_containers(written(tmp_path, write_elf())) == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c[:10], "container header is cut short"),
        (lambda c: b"\x51" + c[1:], "magic"),
        (lambda c: c[:6] + struct.pack("<H", 8) + c[8:], "container header of 8 bytes"),
        (lambda c: c[:8] + struct.pack("<Q", 2**63) + c[16:], "runs past the section"),
        (lambda c: c[:8] + struct.pack("<Q", 40) + c[16:56], "entry header is cut short"),
        (lambda c: c[:16] + struct.pack("<H", 7) + c[18:], "entry kind 0x7"),
        (lambda c: c[:20] + struct.pack("<I", 0) + c[24:], "entry header of 0 bytes"),
        (lambda c: c[:24] + struct.pack("<Q", 2**64 - 64) + c[32:], "runs past its container"),
        (
            lambda c: c[:32] + struct.pack("<I", 4096) + c[36:56] + struct.pack("<Q", 0x8000) + c[64:],
            "compressed bytes in",
        ),
    ],
)
def test_damaged_containers_are_refused(tmp_path: Path, change: Callable[[bytes], bytes], message: str) -> None:
    good = write_container("sm_90a")
    path = written(tmp_path, write_elf(sections=[(".nv_fatbin", change(good))]))
    with pytest.raises(MalformedFatbin, match=message):
        read_containers(path)


@given(st.lists(st.lists(ENTRIES, max_size=4), max_size=4), st.integers(0, 3))
def test_what_is_written_is_read(containers: list[list[Entry]], padding: int) -> None:
    data = write_section(*(write_container(*entries) for entries in containers), padding=8 * padding)
    read = list(walk_section(data, 0, len(data), "s", "f"))
    assert [[i.arch for i in c.images] for c in read] == [[e.arch for e in entries] for entries in containers]
    payloads = [[data[i.offset : i.offset + i.size].rstrip(b"\0") for i in c.images] for c in read]
    assert payloads == [[e.payload.rstrip(b"\0") for e in entries] for entries in containers]


@settings(max_examples=300)
@given(st.lists(ENTRIES, min_size=1, max_size=3), st.data())
def test_flipped_bytes_raise_the_dedicated_error_or_read(entries: list[Entry], data: st.DataObject) -> None:
    blob = bytearray(write_elf(sections=[(".nv_fatbin", write_section(write_container(*entries)))]))
    for _ in range(data.draw(st.integers(1, 4))):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(blob)))
    for raw in (bytes(blob), bytes(blob[:cut])):
        containers, problem = [], "f: "
        try:
            containers = list(containers_of(Elf(raw, "f")))
        except MalformedBinary as error:
            problem = error.what
        assert problem.startswith("f: ")
        assert_inside(containers, len(raw))


@given(st.binary(max_size=400))
def test_random_sections_end(raw: bytes) -> None:
    containers, problem = [], ""
    try:
        containers = list(walk_section(raw, 0, len(raw), "s", "f"))
    except MalformedFatbin as error:
        problem = error.what
    # either it is refused, or it holds containers, or all of it is padding
    assert problem.startswith("f: s, at byte ") or containers or not raw.strip(b"\0")
    assert_inside(containers, len(raw))


def assert_inside(containers: list[Container], size: int) -> None:
    """Every payload lies in the file, behind the header of its container, and none overlaps the one before."""
    for container in containers:
        end = container.offset
        for image in container.images:
            assert end < image.offset <= image.offset + image.size <= size
            end = image.offset + image.size


@pytest.mark.parametrize("raw", [b"", b"\x7fELF", b"\x7fELF\x01\x01" + b"\0" * 90, b"#!/bin/sh\n" * 20])
def test_other_files_are_refused(tmp_path: Path, raw: bytes) -> None:
    with pytest.raises(MalformedElf):
        read_containers(written(tmp_path, raw))


GOLDEN = {
    "sgl_kernel/flash_ops.abi3.so": {"sm_80": 372, "sm_86": 372, "sm_90a": 372},
    "sgl_kernel/sm90/common_ops.abi3.so": dict.fromkeys(
        ("sm_80", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_103a", "sm_120a"), 51
    ),
    "sgl_kernel/sm100/common_ops.abi3.so": dict.fromkeys(
        ("sm_80", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_103a", "sm_120a"), 51
    ),
    "sgl_kernel/flashmla_ops.abi3.so": dict.fromkeys(("sm_90a", "sm_100a", "sm_103a"), 25),
    "transformer_engine/wheel_lib/libtransformer_engine.so": {
        **dict.fromkeys(("sm_75", "sm_80", "sm_89", "sm_90"), 61),
        **dict.fromkeys(("compute_75", "compute_80", "compute_89", "compute_90"), 61),
        "sm_90a": 1,
        "sm_100": 42,
        "sm_100a": 19,
        "sm_103a": 19,
        "sm_120": 42,
        "sm_120f": 19,
    },
    "torch/lib/libtorch_cuda.so": {
        **dict.fromkeys(("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"), 444),
        "sm_90a": 4,
        "sm_100a": 59,
        "sm_103a": 59,
        "sm_89": 1,
        "sm_120a": 1,
        "sm_121a": 1,
    },
    "nvidia/nccl/lib/libnccl.so.2": {
        **dict.fromkeys(("sm_75", "sm_80", "sm_90", "sm_100", "sm_110", "sm_120"), 12),
        "sm_100f": 4,
        "compute_120": 11,
    },
    "torchao/_C_cutlass_90a.abi3.so": {"sm_90a": 6},
}
"""Measured with ``cuobjdump --list-elf`` and ``--list-ptx`` on the wheels of the cu130 lock; .nv_fatbin only."""


@pytest.mark.integration
@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_golden_counts(name: str) -> None:
    path = site_packages() / name
    if not path.is_file():
        pytest.skip(f"{name} is not in the environment of ORBIT_TEST_ENV")
    counts = Counter(i.arch for c in read_containers(path) if c.section == ".nv_fatbin" for i in c.images)
    assert dict(counts) == GOLDEN[name]


@pytest.mark.integration
@pytest.mark.parametrize(
    "name",
    [
        "sgl_kernel/flashmla_ops.abi3.so",
        "torchao/_C_cutlass_90a.abi3.so",
        "nvidia/nccl/lib/libnccl.so.2",
        "nvidia/cu13/lib/libcublasLt.so.13",
        "torchvision/_C.so",
    ],
)
def test_counts_equal_cuobjdump(name: str) -> None:
    tool = site_packages() / "nvidia" / "cu13" / "bin" / "cuobjdump"
    path = site_packages() / name
    if not tool.is_file() or not path.is_file():
        pytest.skip(f"cuobjdump or {name} is not in the environment of ORBIT_TEST_ENV")
    ours = Counter(
        i.arch.rstrip("f").replace("compute_", "sm_") + "." + i.kind
        for c in read_containers(path)
        if c.section == ".nv_fatbin"
        for i in c.images
    )
    theirs: Counter[str] = Counter()
    for flag, kind in (("--list-elf", "elf"), ("--list-ptx", "ptx")):
        listed = run([tool, flag, path], doing="listing device code", check=False).stdout.decode()
        for line in listed.splitlines():
            arch = next(part for part in line.replace("-", ".").split(".") if part.startswith("sm_"))
            theirs[f"{arch}.{kind}"] += 1
    assert ours == theirs
    assert ours
