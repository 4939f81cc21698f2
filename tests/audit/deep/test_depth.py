"""What each target would load of a file, read in worker processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import lz4.block
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from orbit.audit.binary.coverage import container_archs, result_of
from orbit.audit.binary.fatbin import Container, walk_section
from orbit.audit.deep.depth import Slices, best_image, depth_rows, open_below, read_depth
from orbit.audit.facts import SharedObject
from orbit.core.console import Silent
from orbit.profile.model import load_profile
from tests.audit.binary.test_coverage import ARCHS, CAPABILITIES
from tests.audit.depths import both, library, read
from tests.writers.cubin import EMPTY, Says, works, write_cubin
from tests.writers.fatbin import Entry, write_container, write_entry, write_section

TARGETS = load_profile("probe").targets


def containers(*written: bytes) -> tuple[Container, ...]:
    data = write_section(*written)
    return tuple(walk_section(data, 0, len(data), ".nv_fatbin", "x"))


@pytest.mark.parametrize(
    ("archs", "capability", "loaded"),
    [
        (["sm_90", "sm_90a", "compute_90"], "9.0", "sm_90a"),
        (["sm_80", "sm_90", "compute_90"], "9.0", "sm_90"),
        (["sm_100", "sm_100f", "sm_100a"], "10.0", "sm_100a"),
        (["sm_100", "sm_100f"], "10.0", "sm_100f"),
        (["sm_100a", "sm_100f"], "10.3", "sm_100f"),
        (["sm_90", "compute_80", "compute_90"], "10.0", "compute_90"),
        (["sm_90a", "compute_90a"], "10.0", None),
        (["sm_86", "sm_80"], "9.0", None),
    ],
)
def test_best_image(archs: list[str], capability: str, loaded: str | None) -> None:
    (container,) = containers(write_container(*archs))
    image = best_image(container, capability)
    assert (image.arch if image else None) == loaded


@given(st.lists(st.sampled_from(ARCHS[:-2]), max_size=6), st.sampled_from(CAPABILITIES))
def test_an_image_is_loaded_exactly_when_coverage_says_so(archs: list[str], capability: str) -> None:
    (container,) = containers(write_container(*archs))
    image = best_image(container, capability)
    kinds = {"sass": "elf", "ptx-jit": "ptx", "none": None}
    assert (image.kind if image else None) == kinds[result_of(container_archs(container), capability)]


def packed(arch: str, compression: str, body: bytes) -> Entry:
    """An entry with a compressed cubin; its header states the true size."""
    pack = {"zstd": zstandard.compress, "lz4": lambda data: lz4.block.compress(data, store_size=False)}[compression]
    return SizedEntry(arch, payload=pack(body), compression=compression, full=len(body))


class SizedEntry(Entry):
    """An entry whose stated size is chosen."""

    def __init__(self, *args: object, full: int, **parts: object) -> None:
        super().__init__(*args, **parts)  # type: ignore[arg-type]
        object.__setattr__(self, "full", full)


def write_sized(*entries: Entry | str) -> bytes:
    """Like write_container, with the sizes that the entries state."""
    container = bytearray(write_container(*entries))
    at = 16
    for item in entries:
        entry = Entry(item) if isinstance(item, str) else item
        if isinstance(entry, SizedEntry):
            container[at + 56 : at + 64] = entry.full.to_bytes(8, "little")  # type: ignore[attr-defined]
        at += len(write_entry(entry))
    return bytes(container)


def test_kernels_by_target_whatever_the_compression(tmp_path: Path) -> None:
    ptx = Entry("compute_90", payload=b".target sm_90\n.visible .entry _Z4addsPf()\n")
    prefix = library(
        tmp_path,
        both({"_Z4addsPf": works(2048)}, {"_Z4addsPf": EMPTY, "_Z4moreve": Says("no")}),
        write_sized(
            packed("sm_90", "zstd", write_cubin({"a": works(512)}, arch="sm_90")),
            packed("sm_100", "lz4", write_cubin({"a": works(256)}, arch="sm_100")),
        ),
        write_container(ptx),
    )
    _env, depth = read(prefix)
    (item,) = depth.files
    first, second, third = item.containers
    assert first.loaded["h100"].kernels["_Z4addsPf"][1:] == (2048, "", "")
    assert first.loaded["b200"].kernels["_Z4addsPf"][1:] == (256, "empty", "")
    assert first.loaded["b200"].kernels["_Z4moreve"][1:] == (384, "message", "no")
    assert {t: (i.arch, i.stated, i.kernels["a"].code_bytes) for t, i in second.loaded.items()} == {
        "h100": ("sm_90", "sm_90", 512),
        "b200": ("sm_100", "sm_100", 256),
    }
    assert third.loaded["h100"] is third.loaded["b200"]
    assert list(third.loaded["h100"].kernels) == ["_Z4addsPf"]
    assert (depth.num_images, depth.unpacked_bytes > depth.payload_bytes) == (5, True)


def test_rows(tmp_path: Path) -> None:
    prefix = library(tmp_path, both({"k": works(2048)}, {"k": EMPTY, "m": works(512)}), write_container("sm_80"))
    env, depth = read(prefix)
    (row,) = depth_rows(depth, env.in_site)
    assert (row.file, row.kernels) == ("ext/_c.so", 2)
    assert {t.target: (t.kernels, t.stubs, t.missing, t.code_bytes) for t in row.targets} == {
        "h100": (1, 0, 1, 2048),
        "b200": (2, 1, 0, 768),
    }


def test_only_what_a_target_loads_is_unpacked(tmp_path: Path) -> None:
    junk = SizedEntry("sm_80", payload=b"junk", compression="zstd", full=1 << 40)
    _env, depth = read(library(tmp_path, write_sized(junk, Entry("sm_90", payload=write_cubin({}, arch="sm_90")))))
    assert [image.problem for box in depth.files[0].containers for image in box.loaded.values()] == [""]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (SizedEntry("sm_90", payload=b"junk", compression="zstd", full=100), "zstd data cannot be unpacked"),
        (SizedEntry("sm_90", payload=zstandard.compress(bytes(999)), compression="zstd", full=100), "states 999 bytes"),
        (SizedEntry("sm_90", payload=b"junk", compression="lz4", full=1 << 31), "states 2147483648 bytes"),
        (Entry("sm_90", payload=b"no cubin, no ELF"), "not an ELF file"),
        (Entry("sm_90", payload=b""), "not an ELF file"),
    ],
)
def test_what_cannot_be_read_is_a_fact(tmp_path: Path, entry: Entry, reason: str) -> None:
    prefix = library(tmp_path, write_sized(entry), write_container(Entry("sm_90", write_cubin({"k": EMPTY}))))
    _env, depth = read(prefix)
    damaged, sound = (box.loaded["h100"] for box in depth.files[0].containers)
    assert reason in damaged.problem
    assert (dict(damaged.kernels), sound.problem, list(sound.kernels)) == ({}, "", ["k"])


def test_a_file_that_states_too_much_is_left_alone(tmp_path: Path) -> None:
    bombs = [write_sized(SizedEntry("sm_90", payload=b"x", compression="lz4", full=1 << 30)) for _ in range(33)]
    _env, depth = read(library(tmp_path, *bombs))
    assert "more than" in depth.files[0].problem
    assert depth.num_images == 0


def shared(prefix: Path) -> SharedObject:
    env, _depth = read(prefix)
    return next(item for item in env.objects if item.containers)


def test_bytes_may_come_from_elsewhere(tmp_path: Path) -> None:
    prefix = library(tmp_path, both({"k": EMPTY}, {"k": EMPTY}))
    item = shared(prefix)
    content = (prefix / item.path).read_bytes()
    opened = []

    @contextlib.contextmanager
    def give(path: str) -> Iterator[Slices]:
        opened.append(path)
        yield content

    depth = read_depth(Path("/nowhere"), [item], TARGETS, Silent(), open_bytes=give)
    assert [len(image.kernels) for image in depth.files[0].containers[0].loaded.values()] == [1, 1]
    assert set(opened) == {item.path}


def test_a_file_that_changed_is_a_fact(tmp_path: Path) -> None:
    prefix = library(tmp_path, both({"k": EMPTY}, {"k": EMPTY}))
    item = shared(prefix)
    path = prefix / item.path
    whole = path.read_bytes()

    def problems() -> set[str]:
        depth = read_depth(prefix, [item], TARGETS, Silent())
        return {image.problem for image in depth.files[0].containers[0].loaded.values()}

    path.write_bytes(whole[:500])
    assert problems() == {"the file became shorter while it was read"}
    path.unlink()
    assert problems() == {"No such file or directory"}
    os.mkfifo(path)
    assert problems() == {"not a regular file"}
    path.unlink()
    path.symlink_to("/etc/hostname")
    assert len(problems()) == 1
    assert problems() != {""}


def test_open_below_gives_slices(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0123456789")
    with open_below(tmp_path, "f") as data:
        assert (data[2:5], data[8:20], data[20:30]) == (b"234", b"89", b"")


def test_nothing_to_read(tmp_path: Path) -> None:
    depth = read_depth(tmp_path, [], TARGETS, Silent())
    assert (depth.files, depth.num_images) == ((), 0)
