"""Pieces of a new file, and how they are written."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orbit.core.files import CHUNK_BYTES
from orbit.errors import InputError
from orbit.image.slim.edition import Copy, Edition, Fill, Patch, Piece, Write, in_place, kept_pieces, merged, size_of
from orbit.image.slim.facts import ContainerPlan, EntryPlan, SlimRefused
from orbit.image.slim.write import Written, write_edition


def entry(offset: int, size: int, *, keep: bool) -> EntryPlan:
    return EntryPlan(arch="sm_90" if keep else "sm_80", offset=offset, size=size, keep=keep, reason="loads")


BOX = ContainerPlan(
    section=".nv_fatbin",
    index=0,
    offset=100,
    size=16 + 24 + 40 + 8,
    entries=(entry(116, 24, keep=False), entry(140, 40, keep=True), entry(180, 8, keep=False)),
)


def test_a_container_keeps_its_place_and_its_entries_move_to_its_front() -> None:
    edition = in_place(300, [BOX], "because")
    assert list(edition.pieces) == [Copy(0, 116), Copy(140, 40), Fill(32), Copy(188, 112)]
    assert edition.patches == ((108, (40).to_bytes(8, "little")),)
    assert (edition.size, edition.layout, edition.why_not) == (300, "holes", "because")
    assert sum(map(size_of, edition.pieces)) == 300


def test_a_container_without_entries_is_its_header() -> None:
    empty = ContainerPlan(section=".nv_fatbin", index=0, offset=100, size=16, entries=())
    assert list(kept_pieces(empty)) == [Copy(100, 16)]
    assert in_place(300, [empty], "").pieces == (Copy(0, 300),)


def test_neighbours_are_joined_and_nothing_is_lost() -> None:
    pieces: list[Piece] = [Copy(0, 4), Copy(4, 6), Fill(0), Fill(3), Fill(2), Write(b""), Copy(20, 1), Copy(22, 1)]
    assert list(merged(pieces)) == [Copy(0, 10), Fill(5), Copy(20, 1), Copy(22, 1)]


def write(tmp_path: Path, data: bytes, pieces: list[Piece], patches: list[Patch], *, sha256: str = "") -> Written:
    source, out = tmp_path / "old", tmp_path / "new"
    source.write_bytes(data)
    edition = Edition("holes", tuple(pieces), tuple(patches), sum(map(size_of, pieces)))
    sha256 = sha256 or hashlib.sha256(data).hexdigest()
    return write_edition(edition, source, out, sha256=sha256, check=lambda _path: None)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_what_is_written_is_what_the_pieces_say(tmp_path: Path, data: st.DataObject) -> None:
    old = os.urandom(data.draw(st.sampled_from([0, 10, CHUNK_BYTES - 3, CHUNK_BYTES, 2 * CHUNK_BYTES + 9])))
    at, pieces, expected, patches = 0, [], b"", []
    for _ in range(data.draw(st.integers(0, 6))):
        kind = data.draw(st.sampled_from(["copy", "copy", "fill", "write"]))
        size = data.draw(st.integers(0, min(len(old) - at, CHUNK_BYTES + 50) if kind == "copy" else CHUNK_BYTES + 5))
        piece: Piece = Copy(at, size) if kind == "copy" else Fill(size) if kind == "fill" else Write(b"n" * (size % 99))
        if isinstance(piece, Copy):
            part = bytearray(old[at : at + size])
            if size > 8:
                place = data.draw(st.integers(0, size - 8))
                patches.append((at + place, b"PATCHED!"))
                part[place : place + 8] = b"PATCHED!"
            expected += part
            at += size
            at += data.draw(st.integers(0, min(5, len(old) - at)))
        else:
            expected += bytes(size) if isinstance(piece, Fill) else piece.data
        pieces.append(piece)
    written = write(tmp_path, old, pieces, patches)
    assert (tmp_path / "new").read_bytes() == expected
    assert (written.sha256, written.size) == (hashlib.sha256(expected).hexdigest(), len(expected))


@pytest.mark.parametrize("border", range(-9, 2))
def test_a_patch_across_two_blocks(tmp_path: Path, border: int) -> None:
    data, at = bytes(CHUNK_BYTES + 100), CHUNK_BYTES + border
    write(tmp_path, data, [Copy(0, len(data))], [(at, b"12345678")])
    assert (tmp_path / "new").read_bytes()[at - 1 : at + 9] == b"\x0012345678\x00"


@pytest.mark.parametrize(
    ("pieces", "patches", "why"),
    [
        ([Copy(0, 10), Copy(20, 10)], [(12, b"lost")], "lies in bytes that go"),
        ([Copy(0, 10)], [(50, b"lost")], "lies in bytes that go"),
        ([Copy(0, 14), Copy(20, 10)], [(12, b"lost")], "lies in bytes that go"),
        ([Copy(20, 10), Copy(0, 10)], [], "do not follow each other"),
        ([Copy(0, 100)], [], "shorter than it was"),
    ],
)
def test_pieces_that_cannot_be_right_are_refused(
    tmp_path: Path, pieces: list[Piece], patches: list[Patch], why: str
) -> None:
    (tmp_path / "new").write_bytes(b"before")
    with pytest.raises(SlimRefused, match=why):
        write(tmp_path, bytes(60), pieces, patches)
    assert (tmp_path / "new").read_bytes() == b"before"
    assert sorted(item.name for item in tmp_path.iterdir()) == ["new", "old"]


def test_another_file_than_planned_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SlimRefused, match="not the file that was planned"):
        write(tmp_path, bytes(60), [Copy(0, 60)], [], sha256="0" * 64)
    assert not (tmp_path / "new").exists()


def test_a_result_that_fails_its_check_takes_no_place(tmp_path: Path) -> None:
    source = tmp_path / "old"
    source.write_bytes(b"old")
    os.link(source, tmp_path / "other name")
    edition = Edition("holes", (Copy(0, 2), Write(b"w")), (), 3)

    def refuse(path: Path) -> None:
        assert path.read_bytes() == b"olw"
        raise SlimRefused("no", fix="")

    digest = hashlib.sha256(b"old").hexdigest()
    with pytest.raises(SlimRefused):
        write_edition(edition, source, source, sha256=digest, check=refuse)
    assert source.read_bytes() == b"old"
    write_edition(edition, source, source, sha256=digest, check=lambda _path: None)
    assert source.read_bytes() == b"olw"
    assert (tmp_path / "other name").read_bytes() == b"old"


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    with pytest.raises(InputError, match="No such file"):
        write_edition(Edition("holes", (), (), 0), tmp_path / "old", tmp_path / "no" / "new", sha256="", check=print)
