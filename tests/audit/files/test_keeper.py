"""Keeping while a file passes: readers of what was kept see what readers of the whole file see, however it is cut."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbit.audit.binary.dynamic import read_dynamic, read_exports
from orbit.audit.binary.elf import Buffer, Elf, MalformedBinary
from orbit.audit.binary.fatbin import CONTAINER_START, containers_of
from orbit.audit.binary.sparse import NotKept, Range, Sparse
from orbit.audit.files import keeper as module
from orbit.audit.files.keeper import Keeper
from tests.writers.elf import Export, Import, write_elf
from tests.writers.fatbin import Entry, write_container, write_section

MAX_READINGS = 8


def pieces(data: bytes, seed: int) -> Iterator[bytes]:
    dice = random.Random(seed)
    at = 0
    while at < len(data):
        size = dice.choice((1, 7, 600, 5000, 70_000))
        yield data[at : at + size]
        at += size


def kept(data: bytes, seed: int = 1, keep: tuple[Range, ...] = (), **options: object) -> Sparse:
    keeper = Keeper(len(data), keep, **options)  # type: ignore[arg-type]
    for piece in pieces(data, seed):
        keeper.feed(piece)
    return keeper.finish()


def facts(data: Buffer) -> tuple[object, ...]:
    elf = Elf(data, "x")
    return tuple(containers_of(elf)), read_dynamic(elf), read_exports(elf)


def facts_of_stream(data: bytes, seed: int = 1) -> tuple[object, ...] | None:
    """The facts, after as many readings as the caller of a stream makes; None when they are not enough."""
    keep: tuple[Range, ...] = ()
    for _ in range(MAX_READINGS):
        try:
            return facts(kept(data, seed, keep))
        except NotKept as error:
            keep = (*keep, (error.range[0], error.range[1] + 4096))
    return None


def big_container(*archs: str, payload: int = 30_000) -> bytes:
    return write_container(*[Entry(arch, payload=bytes(range(256)) * (payload // 256)) for arch in archs])


def library(**parts: object) -> bytes:
    sections = [
        (".text", b"\x90" * 50_000),
        (".nv_fatbin", write_section(*[big_container("sm_90a", "sm_100a", "compute_90") for _ in range(12)])),
        (".rodata", b"text" * 20_000),
        ("__nv_relfatbin", write_section(big_container("sm_100a"), padding=64)),
        (".ldata", b"\x01" * 9000 + big_container("sm_90") + b"\x02" * 400_000 + big_container("sm_100")),
    ]
    return write_elf(
        sections=sections,
        soname="libbig.so",
        needed=["libc.so.6"],
        imports=[Import("memcpy", "GLIBC_2.14", "libc.so.6"), Import("plain")],
        exports=[Export(f"function_{number}", "BIG_1") for number in range(300)],
        **parts,  # type: ignore[arg-type]
    )


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that make a library of one megabyte a large one."""
    for name, value in {"PLAN_BYTES": 4096, "HEAD_BYTES": 70_000, "SEGMENT_BYTES": 20_000, "TAIL_BYTES": 2000}.items():
        monkeypatch.setattr(module, name, value)


@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("seed", range(8))
def test_a_large_library_is_read_in_one_pass_and_hardly_kept(seed: int) -> None:
    data = library()
    sparse = kept(data, seed)
    assert facts(sparse) == facts(data)
    assert sparse.kept_bytes < len(data) // 3


@pytest.mark.usefixtures("tight")
def test_a_gigabyte_of_payload_costs_headers_alone() -> None:
    """Only lengths are counted while a payload passes: it is fed by reference and never copied."""
    size = 1 << 30
    start = write_elf(sections=[(".nv_fatbin", b"")])
    entry = write_container(Entry("sm_90a", payload=b""))
    header = bytearray(entry)
    header[8:16] = (64 + size).to_bytes(8, "little")  # of the container
    header[16 + 8 : 16 + 16] = size.to_bytes(8, "little")  # of its entry
    keeper = Keeper(len(start) + len(header) + size)
    keeper.feed(start + bytes(header))
    block = memoryview(bytes(64 << 20))
    for _ in range(size // len(block)):
        keeper.feed(block)
    assert keeper.finish().kept_bytes < 100_000


@pytest.mark.usefixtures("tight")
@settings(max_examples=60, deadline=None)
@given(
    edits=st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=12)), max_size=5),
    seed=st.integers(0, 1000),
    cut=st.one_of(st.none(), st.floats(0, 1)),
)
def test_a_changed_library_gives_the_same_facts_or_the_same_refusal(
    edits: list[tuple[float, bytes]], seed: int, cut: float | None
) -> None:
    data = bytearray(SMALL)
    for share, piece in edits:
        at = int(share * (len(data) - 1)) if seed % 2 else int(share * 4000)
        data[at : at + len(piece)] = piece
    whole = bytes(data[: int(cut * len(data))] if cut is not None else data)
    try:
        expected: object = facts(whole)
    except MalformedBinary as error:
        expected = error.what
    try:
        found: object = facts_of_stream(whole, seed)
    except MalformedBinary as error:
        found = error.what
    assert found is None or found == expected


SMALL = library()


@pytest.mark.usefixtures("tight")
@settings(max_examples=40, deadline=None)
@given(at=st.integers(0, 200_000), seed=st.integers(0, 100), body=st.integers(0, 1 << 40), tail=st.binary(max_size=200))
def test_what_only_looks_like_a_container_hides_none(at: int, seed: int, body: int, tail: bytes) -> None:
    false = CONTAINER_START + body.to_bytes(8, "little") + tail
    noise = bytearray(b"\x03" * 210_000)
    noise[at : at + len(false)] = false
    data = write_elf(sections=[(".ldata", bytes(noise) + big_container("sm_100a"))])
    found = facts_of_stream(data, seed)
    assert found is None or found == facts(data)


@pytest.mark.usefixtures("tight")
def test_ranges_that_are_asked_for_are_kept_whatever_they_hold() -> None:
    data = library()
    inside = next(iter(containers_of(Elf(data, "x")))).images[0].offset + 10_000
    with pytest.raises(NotKept):
        kept(data)[inside : inside + 100]
    assert kept(data, keep=((inside, inside + 100),))[inside : inside + 100] == data[inside : inside + 100]


@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("seed", range(6))
def test_texts_that_will_be_looked_for_are_kept(seed: int) -> None:
    text = b"made with release 12.8.1 of it"
    data = write_elf(sections=[(".rodata", b"\x01" * 300_000 + text + b"\x01" * 300_000)])
    sparse = kept(data, seed, anchors=[b"made with release "])
    at = sparse.find(b"made with release ", 100_000, 650_000)
    assert at == data.find(text)
    assert sparse[at : at + len(text)] == text
    assert kept(data, seed).kept_bytes < sparse.kept_bytes < len(data)
    with pytest.raises(NotKept):
        kept(data, seed).find(b"made with release ", 100_000, 650_000)


@pytest.mark.usefixtures("tight")
def test_dense_keeps_all_but_payloads() -> None:
    data = library()
    payloads = sum(image.size for container in containers_of(Elf(data, "x")) for image in container.images)
    sparse = kept(data, dense=True)
    assert facts(sparse) == facts(data)
    assert len(data) - payloads <= sparse.kept_bytes < len(data) - payloads // 2


@pytest.mark.usefixtures("tight")
def test_too_much_to_keep_is_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES", 30_000)
    with pytest.raises(MalformedBinary, match="not read as a stream"):
        kept(library())


def test_a_file_shorter_than_its_plan() -> None:
    assert kept(b"\x7fELF")[:4] == b"\x7fELF"
    assert len(kept(b"")) == 0
