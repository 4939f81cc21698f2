"""Compressed layers: equal bytes everywhere, both digests right, damage noticed."""

from __future__ import annotations

import gzip
import hashlib
import io
import random
import zlib
from pathlib import Path

import pytest
import zstandard

from orbit.errors import InputError
from orbit.image.blob import GZIP_JOB_BYTES, Codec, codec_identity, packer, read_tar, verified_tar, write_blob
from orbit.image.damage import DamagedImage

# Longer than one compression job, so that several workers really have something to do; half of it compressible.
DATA = b"".join(random.Random(n).randbytes(1 << 19) + bytes(1 << 19) for n in range(20))


def pieces(size: int) -> list[bytes]:
    return [DATA[start : start + size] for start in range(0, len(DATA), size)]


def squeeze(codec: Codec, chunks: list[bytes], workers: int) -> bytes:
    sink = io.BytesIO()
    packed = packer(codec, sink, workers=workers)
    for chunk in chunks:
        packed.write(chunk)
    packed.close()
    return sink.getvalue()


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
def test_neither_the_number_of_workers_nor_the_size_of_the_pieces_changes_the_bytes(codec: Codec) -> None:
    ways = ((1, 1 << 20), (2, 1 << 20), (5, 1 << 20), (3, 77_777))
    assert len({squeeze(codec, pieces(size), workers) for workers, size in ways}) == 1


@pytest.mark.parametrize("size", [0, 1, GZIP_JOB_BYTES - 1, GZIP_JOB_BYTES, GZIP_JOB_BYTES + 1, 3 * GZIP_JOB_BYTES])
def test_gzip_in_jobs_is_an_ordinary_stream_of_any_length(size: int) -> None:
    raw = squeeze("gzip", [DATA[:size]], 2)
    assert gzip.decompress(raw) == DATA[:size]
    assert zlib.decompressobj(31).decompress(raw) == DATA[:size]


def test_gzip_in_jobs_costs_little_space() -> None:
    """Each job knows the window before it: repeats are found across jobs."""
    words = b" ".join(b"word%d" % (number % 5000) for number in range(400_000))
    assert len(squeeze("gzip", [words], 2)) < 1.02 * len(gzip.compress(words, 6))


@pytest.mark.parametrize("codec", ["zstd", "gzip", "none"])
def test_a_blob_is_named_by_its_digest_and_holds_the_stream(tmp_path: Path, codec: Codec) -> None:
    blob = write_blob(pieces(1 << 20), tmp_path, codec, files=3)
    (path,) = tmp_path.iterdir()
    raw = path.read_bytes()
    unpack = {
        "zstd": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
        "gzip": gzip.decompress,
    }
    assert unpack.get(codec, bytes)(raw) == DATA
    assert (path.name, blob.digest) == (hashlib.sha256(raw).hexdigest(), f"sha256:{path.name}")
    assert blob.diff_id == f"sha256:{hashlib.sha256(DATA).hexdigest()}"
    assert (blob.size, blob.tar_bytes, blob.files, blob.codec) == (len(raw), len(DATA), 3, codec)
    assert b"".join(verified_tar(path, codec, blob.diff_id)) == DATA


def test_a_gzip_blob_holds_no_time_and_no_name(tmp_path: Path) -> None:
    write_blob([b"x"], tmp_path, "gzip", files=1)
    (path,) = tmp_path.iterdir()
    assert path.read_bytes()[3:8] == bytes(5)


def test_another_content_than_promised_is_refused_at_the_end(tmp_path: Path) -> None:
    write_blob([b"x" * 10_000], tmp_path, "zstd", files=1)
    (path,) = tmp_path.iterdir()
    with pytest.raises(DamagedImage, match="content is not"):
        list(verified_tar(path, "zstd", "sha256:" + "0" * 64))


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
def test_damage_is_an_error_and_not_other_bytes(tmp_path: Path, codec: Codec) -> None:
    blob = write_blob(pieces(1 << 20), tmp_path, codec, files=1)
    (path,) = tmp_path.iterdir()
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 3] ^= 0x10  # within a job: bits that fill up a byte between two of gzip's mean nothing
    other = tmp_path / "damaged"
    other.write_bytes(raw)
    with pytest.raises(DamagedImage):
        list(verified_tar(other, codec, blob.diff_id))


def test_a_file_that_is_no_stream_at_all_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"neither")
    for codec in ("zstd", "gzip"):
        with pytest.raises(InputError, match="not a whole"):
            list(read_tar(tmp_path / "x", codec))


def test_the_library_that_makes_the_bytes_is_part_of_the_key() -> None:
    assert codec_identity("zstd")["library"] == ".".join(map(str, zstandard.ZSTD_VERSION))
    assert codec_identity("gzip")["library"]
