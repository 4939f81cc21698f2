"""The tar reader: equal to tarfile on honest streams, a typed error or a recorded problem on all others."""

from __future__ import annotations

import io
import stat
import tarfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orbit.audit.images import tar_stream
from orbit.audit.images.tar_stream import Member, TarError, TarStream, clean
from tests.writers.images import header, pax
from tests.writers.tiny_image import file, folder, other, symlink, tar_bytes

END = bytes(1024)


def chunked(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


def read(data: bytes, size: int = 1 << 20) -> tuple[list[tuple[Member, bytes]], TarStream]:
    stream = TarStream(chunked(data, size), "t")
    return [(member, b"".join(stream.content())) for member in stream], stream


def paths(data: bytes) -> list[str]:
    return [member.path for member, _content in read(data)[0]]


NAMES = st.lists(
    st.text("abc\u00e9.", min_size=1, max_size=60).filter(lambda p: p not in (".", "..")), min_size=1, max_size=6
)


@settings(max_examples=150, deadline=None)
@given(
    members=st.lists(st.tuples(NAMES, st.binary(max_size=1500), st.integers(0, 0o7777)), max_size=8),
    chunk=st.sampled_from([1, 100, 512, 1000, 1 << 20]),
    form=st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
)
def test_it_reads_what_tarfile_writes(members: list[tuple[list[str], bytes, int]], chunk: int, form: int) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for parts, data, mode in members:
            info = tarfile.TarInfo("/".join(parts))
            info.size, info.mode, info.mtime = len(data), mode, 1234567890
            archive.addfile(info, io.BytesIO(data))
    found, stream = read(buffer.getvalue(), chunk)
    assert [(m.path, m.mode, m.size, m.mtime, content) for m, content in found] == [
        ("/".join(parts), stat.S_IFREG | mode, len(data), 1234567890, data) for parts, data, mode in members
    ]
    assert stream.ended
    assert not stream.problems
    for member, content in found:
        assert buffer.getvalue()[member.offset : member.offset + member.size] == content


def test_every_kind_of_member() -> None:
    data = tar_bytes(
        [
            folder("./d/", 0o700), symlink("d/l", "../x"), other("d/h", tarfile.LNKTYPE, "./d/l"),
            other("c", tarfile.CHRTYPE), other("b", tarfile.BLKTYPE), other("p", tarfile.FIFOTYPE), file("/abs", b"x"),
        ]
    )  # fmt: skip
    found = [member for member, _content in read(data)[0]]
    assert [member.path for member in found] == ["d", "d/l", "d/h", "c", "b", "p", "abs"]
    assert [stat.S_IFMT(member.mode) for member in found] == [
        stat.S_IFDIR, stat.S_IFLNK, 0, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFREG,
    ]  # fmt: skip
    assert [member.target for member in found[:3]] == ["", "../x", "d/l"]


def test_what_is_not_taken_is_stepped_over() -> None:
    data = tar_bytes([file("a", b"1" * 5000), file("b", b"2" * 700)])
    stream = TarStream(chunked(data, 333), "t")
    assert [member.path for member in stream] == ["a", "b"]
    assert stream.drain() == len(data)


def test_whole_gives_a_content_that_lies_in_one_chunk() -> None:
    data = tar_bytes([file("a", b"1" * 600), file("b", b"2" * 600), file("c", b"3")])
    stream = TarStream(chunked(data, 512 + 1024 + 512 + 100), "t")
    found = {}
    for member in stream:
        piece = stream.whole()
        found[member.path] = None if piece is None else bytes(piece)
    assert found == {"a": b"1" * 600, "b": None, "c": b"3"}


def test_pax_overrides_path_link_and_size() -> None:
    long = "d/" + "p" * 200
    big = pax({"path": long, "size": "3", "mtime": "12.5"}) + header(b"short", b"77777777777") + b"abc" + bytes(509)
    link = pax({"linkpath": "t" * 200}) + header(b"l", flag=b"2", link=b"t")
    found = [(m.path, m.size, m.mtime, m.target) for m, _content in read(big + link + END)[0]]
    assert found == [(long, 3, 12, ""), ("l", 0, 0, "t" * 200)]


@pytest.mark.parametrize("name", ["../x", "a/../../x", "a/../x", "/..", ".."])
def test_a_path_that_leads_out_is_passed_over_and_told(name: str) -> None:
    data = header(name.encode(), b"00000000003") + b"abc" + bytes(509) + header(b"after") + END
    found, stream = read(data)
    assert [member.path for member, _content in found] == ["after"]
    assert [path for path, _why in stream.problems] == [name]


@pytest.mark.parametrize(
    ("member", "word"),
    [
        (header(b"s", b"00000000003", flag=b"S") + b"abc" + bytes(509), "sparse"),
        (pax({"GNU.sparse.major": "1"}) + header(b"s", b"00000000003") + b"abc" + bytes(509), "sparse"),
        (header(b"v", flag=b"V"), "unknown kind"),
        (header(b"l", flag=b"2"), "link"),
        (header(b"h", flag=b"1", link=b"../../etc/passwd"), "link"),
        (pax({"path": "x/" + "y" * 300}) + header(b"z"), "path"),
        (pax({"path": "a\0b"}) + header(b"z"), "path"),
        (pax({"path": "/".join(["d" * 100] * 50)}) + header(b"z"), "path"),
    ],
)
def test_a_member_that_is_refused_alone(member: bytes, word: str) -> None:
    found, stream = read(member + header(b"after") + END)
    assert [one.path for one, _content in found] == ["after"]
    assert len(stream.problems) == 1
    assert word in stream.problems[0][1]


def test_the_blocks_in_which_a_sparse_header_goes_on_are_stepped_over() -> None:
    block = bytearray(header(b"s", b"00000000003", flag=b"S"))
    block[482] = 1
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    more, last = bytearray(512), bytearray(512)
    more[504] = 1
    data = bytes(block) + bytes(more) + bytes(last) + b"abc" + bytes(509) + header(b"after") + END
    assert paths(data) == ["after"]


@pytest.mark.parametrize(
    "data",
    [
        b"x" * 512,
        header(b"a", b"00000000144")[:300],
        header(b"a", b"00000000144") + b"x" * 10,
        header(b"a", b"-0000000001"),
        header(b"a", b"0000000000_"),
        header(b"a", b"\xff" * 12),
        header(b"a", b"\x80" + b"\xff" * 11),
        pax({"size": "99999999999999999999"}) + header(b"a"),
        pax({"size": "-1"}) + header(b"a"),
        header(b"p", b"%011o" % (2 << 20), flag=b"x") + bytes(3 << 20),
        header(b"p", b"%011o" % 9, flag=b"x") + b"9 nothing" + bytes(503),
        header(b"p", b"%011o" % 9, flag=b"x") + b"99 ab=cd\n" + bytes(503),
        header(b"p", b"%011o" % 9, flag=b"x") + b"0 ab=cd\n\n" + bytes(503),
        header(b"a")[:148] + b"0000000\0" + header(b"a")[156:],
    ],
)
def test_what_no_engine_unpacks_is_an_error(data: bytes) -> None:
    with pytest.raises(TarError):
        read(data)


def test_too_many_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tar_stream, "MAX_MEMBERS", 10)
    with pytest.raises(TarError, match="more than 10 headers"):
        read(header(b"a") * 11)


def test_a_global_pax_header_changes_nothing() -> None:
    body = pax({"path": "evil"})
    changed = bytearray(body)
    changed[156:157] = b"g"
    changed[148:156] = b" " * 8
    changed[148:156] = b"%06o\0 " % sum(changed[:512])
    assert paths(bytes(changed) + header(b"good") + END) == ["good"]


def test_old_checksums_of_signed_bytes_and_names_in_base_256_sizes() -> None:
    block = bytearray(header(b"\xe9\xe9"))
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(byte - 256 if byte > 127 else byte for byte in block)
    assert paths(bytes(block) + END) == ["\udce9\udce9"]
    size = b"\x80" + (3).to_bytes(11, "big")
    assert [m.size for m, _c in read(header(b"a", size) + b"abc" + bytes(509) + END)[0]] == [3]


def test_a_stream_without_end_mark_ends_but_says_so() -> None:
    found, stream = read(header(b"a"))
    assert len(found) == 1
    assert not stream.ended


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    edits=st.lists(st.tuples(st.integers(0, 6000), st.binary(min_size=1, max_size=20)), max_size=6),
    cut=st.integers(0, 7000),
    chunk=st.sampled_from([7, 512, 4096]),
)
def test_a_changed_stream_gives_members_or_a_typed_error(edits: list[tuple[int, bytes]], cut: int, chunk: int) -> None:
    data = bytearray(
        tar_bytes([folder("d"), file("d/a", b"1" * 900), symlink("l", "d/a"), file("n" * 150, b"2" * 100)])
        + pax({"path": "x" * 120}) + header(b"y", b"00000000005") + b"12345" + bytes(507) + END
    )  # fmt: skip
    for at, piece in edits:
        data[at : at + len(piece)] = piece
    try:
        found, stream = read(bytes(data[:cut]) if cut < len(data) else bytes(data), chunk)
    except TarError:
        return
    for member, content in found:
        assert len(content) == member.size
        assert ".." not in member.path.split("/")
        assert not member.path.startswith("/")
    assert len(stream.problems) <= tar_stream.MAX_PROBLEMS


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("./a//b/./c/", "a/b/c"),
        ("", ""),
        (".", ""),
        ("a.", "a."),
        ("a/..b", "a/..b"),
        ("a/../b", None),
        ("x" * 256, None),
    ],
)
def test_clean(name: str, path: str | None) -> None:
    assert clean(name) == path
