"""Archives that lie: nothing is written, nothing crashes, everything is bounded, and sound ones are read in full."""

from __future__ import annotations

import io
import os
import random
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from orbit.audit.archives import zip_source
from orbit.audit.archives.zip_source import PROBLEMS, MemberDamage, NotZip, ZipSource, is_unsafe
from tests.writers.wheels import Entry, deflated, zip_bytes


def opened(tmp_path: Path, data: bytes) -> ZipSource:
    path = tmp_path / "a.whl"
    path.write_bytes(data)
    return ZipSource(path)


def problems(tmp_path: Path, *entries: Entry) -> list[str]:
    with opened(tmp_path, zip_bytes(entries)) as source:
        return [member.problem for member in source.members]


@pytest.mark.parametrize("zip64", [False, True])
@pytest.mark.parametrize("descriptor", [False, True])
@pytest.mark.parametrize("deflate", [False, True])
def test_sound_members(tmp_path: Path, deflate: bool, descriptor: bool, zip64: bool) -> None:
    text = b"some text " * 200_000
    entries = [
        Entry("a/b.txt", text, deflate=deflate, descriptor=descriptor, zip64=zip64),
        Entry("a/", mode=0o040755),
        Entry("run", b"#!x", mode=0o100755, deflate=deflate),
    ]
    data = zip_bytes(entries, zip64_end=zip64)
    assert zipfile.ZipFile(io.BytesIO(data)).read("a/b.txt") == text
    with opened(tmp_path, data) as source:
        first, folder, program = source.members
        assert b"".join(source.stream(first)) == text
        assert max(map(len, source.stream(first))) <= zip_source.CHUNK
        assert (folder.is_folder, program.executable, first.executable) == (True, True, False)
        assert (source.read(first, len(text)), source.read(first, len(text) - 1)) == (text, None)
        assert source.head(first, 4) == b"some"


def test_archives_of_the_standard_library(tmp_path: Path) -> None:
    names = {f"d{number % 7}/f{number}": os.urandom(number * 37) for number in range(200)}
    with zipfile.ZipFile(tmp_path / "a.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in names.items():
            archive.writestr(name, content)
        archive.comment = b"PK\5\6 in a comment"
    with ZipSource(tmp_path / "a.whl") as source:
        assert {member.name: source.read(member, 1 << 20) for member in source.members} == names


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        (Entry("../x"), "unsafe"),
        (Entry("/etc/x"), "unsafe"),
        (Entry("a/../../x"), "unsafe"),
        (Entry("a\\..\\x"), "unsafe"),
        (Entry("c:/x"), "unsafe"),
        (Entry("a//b"), "unsafe"),
        (Entry("a\0b"), "unsafe"),
        (Entry(""), "unsafe"),
        (Entry("d/" * 41 + "x"), "unsafe"),
        (Entry("n" * 1025), "unsafe"),
        (Entry("x", b"/etc/passwd", mode=0o120777), "link"),
        (Entry("x", mode=0o010644), "special"),
        (Entry("x", mode=0o060644), "special"),
        (Entry("x", b"abc", flags=1), "encrypted"),
        (Entry("x", b"abc", method=14), "method"),
        (Entry("x", b"abc", method=8, size=1 << 20), "size"),
        (Entry("x", b"abc", size=4), "size"),
        (Entry("x", b"abc", size=1 << 63, zip64=True), "bomb"),
        (Entry("x", b"abc", packed=1 << 63, size=1 << 63, zip64=True), "bomb"),
        (Entry("x", bytes(1 << 20), size=300 << 20, deflate=True), "bomb"),
        (Entry("x", b"abc", offset=1 << 63, zip64=True), "outside"),
        (Entry("x", b"abc", offset=1 << 31), "outside"),
        (Entry("x", b"abc", packed=10_000, size=10_000), "outside"),
    ],
)
def test_members_that_are_not_read(tmp_path: Path, entry: Entry, kind: str) -> None:
    with opened(tmp_path, zip_bytes([entry])) as source:
        (member,) = source.members
        assert member.problem == kind
        assert kind in PROBLEMS
        with pytest.raises(MemberDamage):
            next(source.stream(member))


@pytest.mark.parametrize("name", ["a/b", "a.b/c..d", "..a", "ab:c/d", "d/", "d" * 255, "a/" * 39 + "x"])
def test_odd_names_that_are_safe(name: str) -> None:
    assert not is_unsafe(name)


def test_members_that_share_bytes(tmp_path: Path) -> None:
    kernel = Entry("a", b"x" * 1000)
    assert problems(tmp_path, kernel, Entry("b", b"x" * 1000, offset=0, local_name=b"a")) == ["overlap", "overlap"]
    # one long member that reaches over several
    assert (
        problems(tmp_path, Entry("a", b"x", size=120, packed=120), Entry("b", b"y"), Entry("c", b"z" * 200))
        == ["overlap"] * 3
    )
    assert problems(tmp_path, kernel, Entry("b", b"y")) == ["", ""]


@pytest.mark.parametrize("limits", [{"MAX_TOTAL_BYTES": 1500}, {"TOTAL_FROM": 1500, "TOTAL_RATIO": 0}])
def test_more_in_all_than_any_wheel_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]
) -> None:
    for name, value in limits.items():
        monkeypatch.setattr(zip_source, name, value)
    assert problems(tmp_path, Entry("a", bytes(1000)), Entry("b", bytes(1000)), Entry("c", bytes(10))) == [
        "",
        "bomb",
        "bomb",
    ]


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (Entry("x", b"abc", crc=1), "checksum"),
        (Entry("x", b"abc" * 50, deflate=True, size=90), "more instead of the 90"),
        (Entry("x", b"abc" * 50, deflate=True, size=151), "150 bytes instead of the 151"),
        (Entry("x", b"abc" * 50, method=8, raw=deflated(b"abc" * 50)[:-3]), "ends in the middle"),
        (Entry("x", b"abc" * 50, method=8, raw=b"\xff" * 40), "cannot be unpacked"),
        (Entry("x", b"abc", local_name=b"y"), "another file"),
    ],
)
def test_members_whose_bytes_are_not_what_is_promised(tmp_path: Path, entry: Entry, says: str) -> None:
    with opened(tmp_path, zip_bytes([entry])) as source:
        (member,) = source.members
        assert member.problem == ""
        with pytest.raises(MemberDamage, match=says):
            list(source.stream(member))
        assert source.read(member, 1 << 20) is None


def test_a_bomb_stops_at_what_was_stated(tmp_path: Path) -> None:
    """200 MB behind a stated size of one million: memory and work are those of the statement."""
    packed = deflated(bytes(200 << 20))
    with opened(tmp_path, zip_bytes([Entry("x", b"", method=8, raw=packed, size=1_000_000)])) as source:
        tracemalloc.start()
        produced = 0
        with pytest.raises(MemberDamage):  # noqa: PT012
            for piece in source.stream(source.members[0]):
                produced += len(piece)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert produced <= 1_000_000
    assert peak < 8 << 20


GOOD = zip_bytes([Entry("a", b"abc"), Entry("b", b"abc" * 99, deflate=True)])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\5\6",
        b"not a zip archive at all, only text that goes on for a while",
        GOOD[:-1],
        GOOD[: len(GOOD) // 2],
        GOOD + b"x",
        b"#!/bin/sh\n" + GOOD,
        zip_bytes([Entry("a", b"abc")], count=2),
        zip_bytes([Entry("a", b"abc"), Entry("b", b"abc")], count=1),
        zip_bytes([Entry("a", b"abc")], count=60_000),
        zip_bytes([Entry("a", b"abc")], count=1 << 62, zip64_end=True),
    ],
)
def test_files_that_are_no_archive(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(NotZip) as caught:
        opened(tmp_path, data)
    assert caught.value.fix


def test_a_pipe_and_a_folder_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.whl")
    with pytest.raises(NotZip, match="not a regular file"):
        ZipSource(tmp_path / "pipe.whl")
    with pytest.raises(NotZip, match="not a regular file"):
        ZipSource(tmp_path)


def test_a_sparse_terabyte(tmp_path: Path) -> None:
    with (tmp_path / "a.whl").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(NotZip):
        ZipSource(tmp_path / "a.whl")


def test_a_file_cut_short_while_it_is_read(tmp_path: Path) -> None:
    with opened(tmp_path, zip_bytes([Entry("a", os.urandom(5 << 20))])) as source:
        stream = source.stream(source.members[0])
        next(stream)
        os.truncate(tmp_path / "a.whl", 100)
        with pytest.raises(MemberDamage, match="instead of"):
            list(stream)


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    with opened(
        tmp_path, zip_bytes([Entry(b"\xff\xfe", b"1", flags=0x800), Entry(b"\x81.txt", b"2", flags=0)])
    ) as source:
        assert [member.name for member in source.members] == ["\udcff\udcfe", "\u00fc.txt"]
        assert [source.read(member, 9) for member in source.members] == [b"1", b"2"]


def test_any_flipped_byte_is_survived(tmp_path: Path) -> None:
    """Seeded mutations of a sound archive: each is read, refused, or damaged; nothing else happens."""
    rng = random.Random(7)
    sound = zip_bytes([Entry("a/b", b"abc" * 40, deflate=True), Entry("c", b"xyz", zip64=True)], zip64_end=True)
    outcomes = {"read": 0, "refused": 0, "damaged": 0}
    for _ in range(3000):
        data = bytearray(sound)
        for _ in range(rng.choice((1, 1, 2, 5))):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        if rng.random() < 0.1:
            del data[rng.randrange(len(data)) :]
        try:
            with opened(tmp_path, bytes(data)) as source:
                for member in source.members:
                    list(source.stream(member))
            outcomes["read"] += 1
        except NotZip:
            outcomes["refused"] += 1
        except MemberDamage:
            outcomes["damaged"] += 1
    assert min(outcomes.values()) > 100, outcomes
