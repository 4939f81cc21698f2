"""orbit.env.archive_read: archives that are damaged, cut off, forged, or none at all."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from orbit.env.archive_list import Line
from orbit.env.archive_read import Archive, Source
from orbit.env.record import RECORD_PATH
from orbit.errors import InputError

from .archives import forged, make_archive, packed

SITE = "lib/python3.12/site-packages"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return make_archive(tmp_path_factory.mktemp("archive")).read_bytes()


@pytest.fixture(scope="module")
def tar(archive: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(archive)


def read(source: Source) -> dict[str, bytes]:
    """Every file of an archive, read to its end."""
    found: dict[str, bytearray] = {}

    def begin(line: Line) -> Callable[[bytes], None]:
        return found.setdefault(line.path, bytearray()).extend

    with Archive(source, "x") as opened:
        seen = [line.path for line in opened.contents(begin)]
        assert seen == [line.path for line in opened.lines]
    return {path: bytes(data) for path, data in found.items()}


def test_every_file_comes_out_as_it_went_in(archive: bytes) -> None:
    files = read(io.BytesIO(archive))
    assert files[f"{SITE}/torch/__init__.py"] == b"answer = 42\n"
    assert len(files[f"{SITE}/nvidia/cu13/lib/libcublas.so.13"]) == 300_000


def test_the_sha256_is_that_of_the_file_and_of_what_follows(archive: bytes) -> None:
    import hashlib

    for more in (b"", b"\0" * 5000):
        with Archive(io.BytesIO(archive + more), "x") as opened:
            list(opened.contents(lambda _line: lambda _data: None))
            assert opened.sha256 == hashlib.sha256(archive + more).hexdigest()
            assert opened.size == len(archive + more)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "ends in the middle of share/orbit/archive.json"),
        (b"not zstd at all, and longer than a header", "no zstd stream"),
        (zstandard.compress(b"x" * 2000), "does not come first"),
        (zstandard.compress(b""), "ends in the middle"),
    ],
)
def test_what_is_no_archive_is_bad_input(data: bytes, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read(io.BytesIO(data))


@given(st.data())
def test_a_stream_that_is_cut_off_says_where(archive: bytes, data: st.DataObject) -> None:
    """Wherever: also inside the last blocks, when every file is there already."""
    length = data.draw(st.integers(0, len(archive) - 1))
    with pytest.raises(InputError, match="x: "):
        read(io.BytesIO(archive[:length]))


@given(st.data())
def test_a_flipped_bit_in_the_file_is_found(archive: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(archive) - 1))
    bit = data.draw(st.integers(0, 7))
    broken = bytearray(archive)
    broken[at] ^= 1 << bit
    try:
        files = read(io.BytesIO(bytes(broken)))
    except InputError:
        return
    assert files == read(io.BytesIO(archive))  # a bit of the frame's header that means nothing


@given(st.data())
def test_a_flipped_bit_in_the_tar_stream_is_found(tar: bytes, data: st.DataObject) -> None:
    """Behind the compression, where nothing but the list protects it: headers, contents, padding, end."""
    at = data.draw(st.integers(0, len(tar) - 1))
    bit = data.draw(st.integers(0, 7))
    broken = bytearray(tar)
    broken[at] ^= 1 << bit
    with pytest.raises(InputError):
        read(packed(bytes(broken)))


def test_damage_names_the_file(tar: bytes) -> None:
    place = tar.index(b"answer = 42\n")
    broken = tar[:place] + b"answer = 43\n" + tar[place + 12 :]
    with pytest.raises(InputError, match=r"torch/__init__\.py is not what the archive's list says"):
        read(packed(broken))


@given(st.data())
def test_whatever_is_put_into_the_stream_is_refused(tar: bytes, data: st.DataObject) -> None:
    """A device, a second file of one name, an absolute name: whole members spliced in between any two blocks."""
    import tarfile

    info = tarfile.TarInfo(data.draw(st.sampled_from(["../../etc/x", "/etc/x", f"{SITE}/torch/__init__.py", "new"])))
    info.type = data.draw(st.sampled_from([tarfile.REGTYPE, tarfile.CHRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE]))
    info.linkname = "/etc/passwd"
    info.mode = 0o4755
    at = 512 * data.draw(st.integers(0, len(tar) // 512))
    with pytest.raises(InputError):
        read(packed(tar[:at] + info.tobuf(tarfile.USTAR_FORMAT) + tar[at:]))


def test_a_bomb_is_not_unpacked(tar: bytes) -> None:
    """A gigabyte of zeros behind a good start is a hundred kilobytes of zstd: no more than the list says is taken."""
    out = io.BytesIO()
    with zstandard.ZstdCompressor().stream_writer(out, closefd=False) as writer:
        writer.write(tar)
        for _ in range(1024):
            writer.write(bytes(1 << 20))
    counting = Counting(out.getvalue())
    with pytest.raises(InputError, match="more follows than its list has"):
        read(counting)


def test_a_frame_that_wants_gigabytes_of_memory_is_refused(tar: bytes) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=30, compression_level=1, write_content_size=0)
    data = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    with pytest.raises(InputError, match="zstd"):
        read(io.BytesIO(data.compress(tar) + data.flush()))


class Counting(io.BytesIO):
    """A source that gives little at a time, as a pipe does."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(min(size or 0, 1000) if size and size > 0 else size)


def test_a_pipe_that_gives_little_at_a_time_is_read_to_its_end(archive: bytes) -> None:
    assert read(Counting(archive)) == read(io.BytesIO(archive))


def test_a_source_that_breaks_says_so(archive: bytes) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell() > 0:
                raise OSError(5, "Input/output error")
            return super().read(100)

    with pytest.raises(OSError, match="Input/output"):
        read(Broken(archive))


def test_a_forged_list_with_a_true_tree_is_held_to_its_word(archive: bytes) -> None:
    """The sizes and digests of the list are compared with what comes, not with what a header says."""
    with Archive(io.BytesIO(archive), "x") as opened:
        manifest, lines = opened.manifest, list(opened.lines)
        contents = read(io.BytesIO(archive))
    assert read(forged(manifest, lines, contents)) == contents
    at = next(index for index, line in enumerate(lines) if line.path == RECORD_PATH)
    lines[at] = replace(lines[at], what="A" * 43)
    with pytest.raises(InputError, match=r"environment\.json is not what"):
        read(forged(manifest, lines, contents))


def test_a_manifest_without_its_list_is_refused(tar: bytes) -> None:
    manifest_end = 512 + -(-int(tar[124:135], 8) // 512) * 512
    with pytest.raises(InputError):
        read(packed(tar[:manifest_end] + tar[: 512 * 4]))
    assert msgspec.json.decode(tar[512 : 512 + int(tar[124:135], 8)])["schema"] == "orbit.env-archive/1"


def test_reading_stops_when_it_is_closed(archive: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(archive)
    with open(path, "rb") as file, Archive(file, "x") as opened:
        assert opened.manifest.files == sum(line.is_file for line in opened.lines)
