"""The tar writer: bytes that depend on the members alone, readable by everybody else's tar."""

from __future__ import annotations

import base64
import errno
import hashlib
import io
import os
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.errors import RefusedError
from orbit.image.tar import (
    CHUNK_BYTES,
    EPOCH_S,
    RECORD,
    Member,
    Slice,
    content,
    folder,
    header,
    tar_chunks,
    with_parents,
)

PART = st.text(st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1).filter(
    lambda part: part not in (".", "..")
)
NAME = st.lists(PART, min_size=1, max_size=6).map("/".join)


def stream(members: tuple[Member, ...]) -> bytes:
    return b"".join(tar_chunks(members))


@given(st.dictionaries(NAME, st.binary(max_size=1500), max_size=8))
def test_what_is_written_is_what_others_read(files: dict[str, bytes]) -> None:
    # a name cannot be a file and a folder
    files = {name: data for name, data in files.items() if not any(other.startswith(f"{name}/") for other in files)}
    members = with_parents(content(name, data) for name, data in files.items())
    data = stream(members)
    assert len(data) % RECORD == 0
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        read = {}
        for info in archive:
            assert (info.mtime, info.uid, info.gid, info.uname, info.gname) == (EPOCH_S, 0, 0, "", "")
            if info.isfile():
                handle = archive.extractfile(info)
                assert handle is not None
                read[info.name] = handle.read()
    assert read == files


def test_order_and_repetition_of_the_input_do_not_matter() -> None:
    members = [content("b/c", b"1"), content("a", b"2"), folder("b"), Member("b/l", "symlink", 0o777, target="c")]
    assert stream(with_parents(members)) == stream(with_parents([*reversed(members), members[0]]))


def test_parents_come_first_and_once() -> None:
    names = [
        member.name for member in with_parents([content("a/b/c", b""), content("a/b-c", b""), content("a/b/d", b"")])
    ]
    assert names == ["a", "a/b", "a/b/c", "a/b/d", "a/b-c"]


def test_the_later_of_two_members_with_one_name_wins() -> None:
    (member,) = with_parents([content("a", b"general"), content("a", b"special")])
    assert member.source == b"special"


def test_hard_links_follow_the_files_they_point_to() -> None:
    members = with_parents([Member("a", "hardlink", 0o755, target="z"), content("z", b"x", executable=True)])
    assert [member.name for member in members] == ["z", "a"]
    with tarfile.open(fileobj=io.BytesIO(stream(members))) as archive:
        assert archive.getmember("a").islnk()
        assert archive.getmember("a").linkname == "z"


@pytest.mark.parametrize(
    ("name", "blocks"),
    [("a" * 100, 1), ("d" * 150 + "/" + "f" * 100, 1), ("a" * 101, 3), ("d" * 200 + "/" + "f" * 100, 3), ("\u00e9", 3)],
)
def test_extended_headers_only_where_a_name_does_not_fit(name: str, blocks: int) -> None:
    head = header(content(name, b""))
    assert len(head) == blocks * 512
    with tarfile.open(fileobj=io.BytesIO(head + bytes(1024))) as archive:
        assert archive.getnames() == [name]


def test_long_link_targets_and_files_over_eight_gigabytes() -> None:
    with tarfile.open(fileobj=io.BytesIO(header(Member("l", "symlink", 0o777, target="t" * 300)) + bytes(1024))) as one:
        assert one.getmember("l").linkname == "t" * 300
    head = header(Member("big", "file", 0o644, size=9 << 30))
    with tarfile.open(fileobj=io.BytesIO(head + bytes(1024))) as two:
        info = two.next()
        assert info is not None
        assert info.size == 9 << 30


@pytest.mark.parametrize("now", [b"", b"short", b"longer than it was"])
def test_a_file_that_changed_since_it_was_listed_is_refused(tmp_path: Path, now: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(now)
    with pytest.raises(RefusedError, match="changed while it was read"):
        stream((Member("file", "file", 0o644, size=10, source=path),))


def test_a_slice_reads_from_the_middle_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    data = stream((Member("part", "file", 0o644, size=3, source=Slice(path, 4)),))
    assert data[512:515] == b"456"


def test_large_files_pass_in_pieces_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    blob = bytes(range(256)) * 20_000
    path.write_bytes(blob)
    members = with_parents(
        [content("a", b"1"), Member("b", "file", 0o644, size=len(blob), source=path), content("c", b"2")]
    )
    with tarfile.open(fileobj=io.BytesIO(stream(members))) as archive:
        handle = archive.extractfile("b")
        assert handle is not None
        assert handle.read() == blob
        assert archive.getnames() == ["a", "b", "c"]


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 5)), max_size=8), st.integers(0, 5000))
def test_holes_read_as_zeros_and_are_not_read(parts: list[tuple[bool, int]], rest: int) -> None:
    """Files of holes and data in pieces of 512 KiB, with an odd end."""
    unit = CHUNK_BYTES // 2
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "file"
        with path.open("wb") as file:
            for filled, units in parts:
                if filled:
                    file.write(bytes([units]) * units * unit)
                else:
                    file.seek(units * unit, os.SEEK_CUR)
            file.truncate(file.tell() + rest)
        whole = path.read_bytes()
        size = len(whole)
        digest = base64.urlsafe_b64encode(hashlib.sha256(whole).digest()).rstrip(b"=").decode()
        member = Member("file", "file", 0o644, size=size, source=path, sha256=digest)
        read: list[int] = []
        real = os.read

        def counting(handle: int, count: int) -> bytes:
            read.append(count)
            return real(handle, count)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "read", counting)
            data = stream((member,))
    assert data[512 : 512 + size] == whole
    assert not any(data[512 + size :])
    if size > CHUNK_BYTES:
        assert sum(read) <= sum(units * unit for filled, units in parts if filled) + (64 << 10)


def test_a_file_is_what_its_stamp_and_its_digest_say(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    state = path.stat()
    stamp = (state.st_dev, state.st_ino, state.st_mtime_ns, state.st_ctime_ns)
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"0123456789").digest()).rstrip(b"=").decode()
    right = Member("file", "file", 0o644, size=10, source=path, stamp=stamp, sha256=digest)
    assert stream((right,))[512:522] == b"0123456789"
    other = base64.urlsafe_b64encode(hashlib.sha256(b"x").digest()).rstrip(b"=").decode()
    with pytest.raises(RefusedError, match="its content is not what RECORD"):
        stream((replace(right, sha256=other),))
    for wrong in range(4):
        touched = tuple(value + (place == wrong) for place, value in enumerate(stamp))
        with pytest.raises(RefusedError, match="written to or replaced"):
            stream((replace(right, stamp=touched, proved=True),))


def test_what_cannot_be_read_for_another_reason_is_said_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"x")

    def broken(*_args: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "read", broken)
    with pytest.raises(OSError, match="Input/output error"):
        stream((Member("file", "file", 0o644, size=1, source=tmp_path / "file"),))
