"""Bytes of a blob by parts of its tar stream: exact in sum, block by block within."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import random
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from orbit.audit.images.image_source import Place
from orbit.core.console import Silent
from orbit.errors import InputError
from orbit.image.inspect.pull import Measure, PullCache, map_blob, measure_blobs
from tests.writers.images import gzip_members, zstd_frames
from tests.writers.tiny_image import file, folder, tar_bytes

NOISE = random.Random(1).randbytes(400_000)
MEMBERS = [folder("a"), file("a/zeros", bytes(400_000)), file("a/noise", NOISE), file("a/text", b"again " * 50_000)]
TAR = tar_bytes(MEMBERS)


def own_zstd(data: bytes) -> bytes:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, threads=1, write_checksum=1, write_content_size=0)
    pack = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return pack.compress(data) + pack.flush()


PACKED = {
    "zstd": zstandard.compress(TAR),
    "checksum": own_zstd(TAR),
    "frames": zstd_frames(TAR),
    "gzip": gzip.compress(TAR),
    "members": gzip_members(TAR),
    "none": TAR,
}


def pieces(data: bytes, size: int = 5000) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def measured(data: bytes, size: int = 5000) -> Measure:
    return map_blob(pieces(data, size), "layer x").measure()


@pytest.mark.parametrize("form", sorted(PACKED))
def test_members_add_up_and_cost_what_they_compress_to(form: str) -> None:
    found = measured(PACKED[form])
    assert found.total == len(PACKED[form])
    sizes = [found.member(number) for number in range(len(MEMBERS))]
    assert len(found.contents) == len(MEMBERS)
    assert 0 <= found.total - sum(sizes) <= 20_000
    if form == "none":
        assert sizes == [512, 400_000 + 512 + 384, 400_000 + 512 + 384, 300_000 + 512 + 32]
        return
    _, zeros, noise, text = sizes
    assert abs(noise - 400_000) < 135_000  # what shares a block with noise has a share of it
    assert zeros + text < 140_000
    inner = found.contents[2] + 130_000
    assert abs(found.between(inner, inner + 140_000) - 140_000) < 4000


@pytest.mark.parametrize("form", sorted(PACKED))
def test_the_size_of_pieces_does_not_matter(form: str) -> None:
    assert measured(PACKED[form], 1).total == len(PACKED[form])
    one, other = (measured(PACKED[form], size) for size in (777, 1 << 20))
    assert one.starts == other.starts
    if form != "gzip" and form != "members":
        assert [one.at(position) for position in range(0, len(TAR), 9999)] == [
            other.at(position) for position in range(0, len(TAR), 9999)
        ]


@given(st.lists(st.integers(0, len(TAR)), min_size=2, max_size=6))
def test_neighbours_add_up(cuts: list[int]) -> None:
    found = measured(PACKED["checksum"], 1 << 20)
    edges = sorted(cuts)
    parts = [found.between(a, b) for a, b in itertools.pairwise(edges)]
    assert sum(parts) == found.between(edges[0], edges[-1])
    assert all(part >= 0 for part in parts)


@pytest.mark.parametrize("form", ["zstd", "checksum", "frames", "gzip", "members"])
def test_what_is_cut_short_is_refused(form: str) -> None:
    for keep in (len(PACKED[form]) // 2, len(PACKED[form]) - 1, 12):
        with pytest.raises(InputError):
            measured(PACKED[form][:keep])


@given(st.integers(0, len(PACKED["frames"]) - 1), st.integers(1, 255))
def test_a_damaged_blob_is_measured_or_refused(place: int, change: int) -> None:
    data = bytearray(PACKED["frames"])
    data[place] ^= change
    try:
        found = measured(bytes(data), 1 << 16)
    except InputError:
        return
    assert found.total == len(data)


def test_maps_are_remembered_and_damage_is_not_believed(tmp_path: Path) -> None:
    blob = tmp_path / "blob"
    blob.write_bytes(PACKED["gzip"])
    digest = hashlib.sha256(PACKED["gzip"]).hexdigest()
    memory = PullCache(tmp_path / "facts")
    (first,) = measure_blobs([(Place(blob, 0, len(PACKED["gzip"])), digest)], memory, Silent())
    blob.unlink()
    (again,) = measure_blobs([(Place(blob, 0, len(PACKED["gzip"])), digest)], memory, Silent())
    assert again.starts == first.starts
    assert again.total == first.total
    (kept,) = (tmp_path / "facts" / "pull").rglob("*.map")
    kept.write_bytes(kept.read_bytes()[:-1])
    assert memory.load(digest) is None


def test_tarfile_agrees_on_where_contents_are(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(TAR)
    with tarfile.open(path) as archive:
        assert list(measured(TAR).contents) == [member.offset_data for member in archive]
