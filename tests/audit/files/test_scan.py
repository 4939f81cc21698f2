"""One pass over one file: the facts are those that the reader of files on disk finds."""

from __future__ import annotations

import io
import mmap
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbit.audit.binary.dynamic import Export as Symbol
from orbit.audit.binary.dynamic import read_exports
from orbit.audit.binary.elf import MalformedBinary, MappedFile, open_elf
from orbit.audit.binary.sparse import NotKept, Window
from orbit.audit.files import keeper, scan
from orbit.audit.files.objects import read_objects
from orbit.audit.files.scan import Scanned, digest_of, is_plain, is_text, scan_member
from orbit.audit.installed.tree import read_tree
from tests.writers.elf import Export, write_elf
from tests.writers.environment import record_digest
from tests.writers.fatbin import Entry, write_container, write_section

LIBRARY = write_elf(
    soname="libx.so", exports=[Export("f", "X_1"), Export("g")], sections=[(".nv_fatbin", write_container("sm_90a"))]
)


def scanned(path: str, data: bytes, mode: int = 0o644, size: int | None = None, step: int = 1000) -> Scanned:
    pieces = (data[at : at + step] for at in range(0, len(data), step))
    return scan_member(path, len(data) if size is None else size, mode, pieces)


@settings(max_examples=100, deadline=None)
@given(
    name=st.sampled_from(["libx.so", "x", "x.so.1", "notes.so.txt", "bin/tool"]),
    mode=st.sampled_from([0o644, 0o755]),
    start=st.sampled_from([LIBRARY, b"", bytes(8), b"#!/bin/sh\n", b"/* GNU ld script */", LIBRARY[:200]]),
    edits=st.lists(st.tuples(st.integers(0, len(LIBRARY)), st.binary(min_size=1, max_size=6)), max_size=3),
    step=st.sampled_from([1, 33, 1 << 20]),
)
def test_it_finds_what_is_found_on_disk(
    tmp_path_factory: pytest.TempPathFactory,
    name: str, mode: int, start: bytes, edits: list[tuple[int, bytes]], step: int,
) -> None:  # fmt: skip
    data = bytearray(start)
    for at, piece in edits:
        data[at : at + len(piece)] = piece
    root = tmp_path_factory.mktemp("root")
    file = root / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(data)
    file.chmod(mode)
    objects, damaged = read_objects(root, read_tree(root))
    for item in objects:  # exports are read on disk when somebody wants them, of a stream always
        if item.dynamic and scan.is_library(item.path, item.dynamic.soname):
            try:
                with open_elf(file, name) as elf:
                    read_exports(elf)
            except MalformedBinary as error:
                objects, damaged = (), {name: error.what}
    found = scanned(name, bytes(data), mode, step=step)
    assert ([found.object] if found.object else []) == list(objects)
    assert ({name: found.damaged} if found.damaged else {}) == damaged
    assert found.digest == record_digest(bytes(data)) == digest_of(bytes(data))


def test_exports_are_those_of_libraries() -> None:
    assert scanned("libx.so", LIBRARY).exports == {Symbol("f", "X_1"), Symbol("g", "")}
    assert scanned("_c.cpython-312-x86_64-linux-gnu.so", LIBRARY).exports is None
    assert scanned("_c.abi3.so", LIBRARY).exports is None


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("lib/python3.12/site-packages/x-1.dist-info/METADATA", True),
        ("lib/python3.12/site-packages/x-1.dist-info/RECORD", True),
        ("cache/archive-v0/Zx/x-1.dist-info/WHEEL", True),
        ("cache/archive-v0/Zx/x.pth", True),
        ("lib/python3.12/site-packages/x.pth", True),
        ("etc/ld.so.conf", True),
        ("METADATA", False),
        ("lib/python3.12/site-packages/x/notes.txt", False),
    ],
)
def test_texts_are_kept_that_somebody_reads(path: str, kept: bool) -> None:
    assert scanned(path, b"text").text == (b"text" if kept else None)
    assert is_plain(path, 4, 0o644) is not kept


def test_the_head_of_a_program_is_kept() -> None:
    found = scanned("opt/orbit/bin/tool", b"#!/opt/orbit/bin/python\n" + b"x" * 9000, 0o755, step=10)
    assert found.head is not None
    assert found.head.startswith(b"#!/opt/orbit/bin/python\nxxx")
    assert not is_plain("opt/orbit/bin/tool", 10, 0o755)
    assert scanned("opt/orbit/lib/tool", b"x").head is None


def test_a_text_that_is_too_long_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "MAX_BYTES", 10)
    assert scanned("etc/passwd", b"x" * 11).text is None


@pytest.mark.parametrize(("size", "word"), [(5, "more than the 5 bytes"), (50, "ends after 9 of 50 bytes")])
def test_a_lying_size_is_damage(size: int, word: str) -> None:
    assert word in scanned("x.txt", b"nine char", size=size).damaged


def test_without_hash() -> None:
    assert scan_member("x", 1, 0o644, [b"x"], hashed=False).digest == ""


def test_a_file_that_can_be_read_where_it_lies_is_not_held(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    path.write_bytes(b"padding!" + LIBRARY)
    with open(path, "rb") as file:
        mapped = MappedFile(file.fileno(), 0, access=mmap.ACCESS_READ)
        mapped.handle = file.fileno()
        window = Window(mapped, 8, len(LIBRARY))
        found = scan_member("libx.so", len(LIBRARY), 0o644, [memoryview(mapped)[8:]], whole=window)
    assert found == scanned("libx.so", LIBRARY)


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "WHOLE_BYTES", 1000)
    for name, value in {"PLAN_BYTES": 512, "HEAD_BYTES": 600, "SEGMENT_BYTES": 600, "TAIL_BYTES": 100,
                        "NAMES_BYTES": 64}.items():  # fmt: skip
        monkeypatch.setattr(keeper, name, value)


@pytest.mark.usefixtures("small_limits")
def test_what_was_not_kept_is_asked_for_and_then_found() -> None:
    big = write_section(*[write_container(Entry("sm_90a", payload=b"\1" * 9000)) for _ in range(3)])
    data = write_elf(
        sections=[(".nv_fatbin", big), (".rodata", b"z" * 50_000)], exports=[Export(f"n{i}") for i in range(99)]
    )
    keep: tuple[tuple[int, int], ...] = ()
    for _reading in range(scan.MAX_READINGS):
        found = scan_member("libx.so", len(data), 0o644, io.BytesIO(data), keep=keep)
        if not found.missing:
            break
        assert found.digest == record_digest(data)
        assert found.object is None
        keep = found.missing
    assert keep
    assert found.object is not None
    assert len(found.object.containers) == 3
    assert found.exports is not None
    assert len(found.exports) == 99


@pytest.mark.usefixtures("small_limits")
def test_a_file_that_always_misses_something_is_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "AGAIN_BYTES", 1)
    monkeypatch.setattr(scan, "MAX_READINGS", 1)
    data = write_elf(sections=[(".rodata", b"z" * 50_000)], exports=[Export(f"name{i}") for i in range(2000)])
    first = scan_member("libx.so", len(data), 0o644, [data])
    assert first.missing
    assert "spread over the file" in scan_member("libx.so", len(data), 0o644, [data], keep=first.missing).damaged


def test_what_is_known_of_debian_packages_is_kept() -> None:
    wanted = ("var/lib/dpkg/status", "var/lib/dpkg/info/libc6:amd64.list")
    assert all(is_text(path) for path in wanted)
    assert not any(is_text(path) for path in ("var/lib/dpkg/info/libc6.md5sums", "x/var/lib/dpkg/status"))


def test_names_that_lie_in_descending_order_are_had_in_a_few_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in cuSPARSELt 0.7.1, after patchelf: 26 MB of names at the end, in another order than their symbols."""
    first, step, size = 80 << 20, 1 << 20, 1 << 27
    names = [first - number * step for number in range(30)]

    def read(elf: object, path: str) -> None:
        for at in names:
            if not any(start <= at < stop for start, stop in asked):
                raise NotKept(at, 8)
        raise MalformedBinary("read to its end")

    monkeypatch.setattr(scan, "Elf", lambda data, path: SimpleNamespace(machine=0))
    monkeypatch.setattr(scan, "object_of", read)
    asked: tuple[tuple[int, int], ...] = ()
    for _reading in range(scan.MAX_READINGS):
        found = scan.read_facts("libx.so", b"", "", asked)
        if not found.missing:
            break
        asked = found.missing
    assert "read to its end" in found.damaged
    assert all(0 <= start < stop for start, stop in asked)
    assert sum(stop - start for start, stop in asked) < size
