"""Images that go by once: layers before their manifest, everything verified, damage as a sentence."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from orbit.audit.files import keeper, scan
from orbit.audit.images import image_stream
from orbit.audit.images.image_stream import read_stream
from orbit.audit.images.layers import LayerFacts, read_layer
from orbit.errors import InputError
from tests.writers.elf import Export, write_elf
from tests.writers.images import config_of, docker_archive, layout_tar
from tests.writers.tiny_image import Members, file, tar_bytes, write_image

LIBRARY = write_elf(
    soname="liba.so", exports=[Export(f"name_{number}") for number in range(300)], sections=[(".rodata", b"z" * 30_000)]
)
LAYERS: list[Members] = [[file("a", b"1" * 2000)], [file("lib/liba.so", LIBRARY)], [file("a", b"1" * 2000)], []]
FACTS = [read_layer([tar_bytes(members)], "x")[0] for members in LAYERS]


def read(data: bytes, step: int = 1 << 16) -> list[LayerFacts]:
    def pieces() -> Iterator[bytes]:
        for at in range(0, len(data), step):
            yield data[at : at + step]

    return read_stream(pieces, "archive", "ref", "amd64")[1]


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("step", [100, 1 << 16])
def test_docker_archives(old: bool, step: int) -> None:
    assert read(docker_archive(LAYERS, old=old), step) == FACTS


def test_compressed_archives_and_layouts(tmp_path: Path) -> None:
    assert read(gzip.compress(docker_archive(LAYERS))) == FACTS
    assert read(zstandard.compress(docker_archive(LAYERS))) == FACTS
    assert read(layout_tar(write_image(tmp_path / "layout", LAYERS))) == FACTS


def test_a_changed_layer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not what its digest says"):
        read(docker_archive(LAYERS).replace(b"1" * 2000, b"2" * 2000, 1))
    layout = write_image(tmp_path / "layout", LAYERS, diff_ids=["sha256:" + "0" * 64] * len(LAYERS))
    with pytest.raises(InputError, match="not what its digest says"):
        read(layout_tar(layout))


def test_a_layer_that_cannot_be_unpacked_is_refused_only_where_it_is_used() -> None:
    junk = b"\x1f\x8b" + b"no gzip at all" * 100
    good = docker_archive(LAYERS)
    extra = tar_bytes([file("unused/layer.tar", junk)])[: 512 + 1536]
    assert read(extra + good) == FACTS
    saved = json.dumps([{"Config": "c.json", "Layers": ["layer.tar"]}]).encode()
    documents = [file("c.json", config_of([junk])), file("manifest.json", saved)]
    with pytest.raises(InputError, match="not a whole gzip stream"):
        read(tar_bytes([file("layer.tar", junk), *documents]))


def test_a_layer_that_is_not_there() -> None:
    saved = json.dumps([{"Config": "c.json", "Layers": ["layer.tar"]}]).encode()
    with pytest.raises(InputError, match=r"layer\.tar .* is damaged: it is missing"):
        read(tar_bytes([file("c.json", config_of([b""])), file("manifest.json", saved)]))


def test_what_was_not_kept_is_read_in_a_second_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "WHOLE_BYTES", 1000)
    for name in ("PLAN_BYTES", "HEAD_BYTES", "SEGMENT_BYTES", "TAIL_BYTES", "NAMES_BYTES"):
        monkeypatch.setattr(keeper, name, 512)
    data, passes = docker_archive(LAYERS), 0

    def pieces() -> Iterator[bytes]:
        nonlocal passes
        passes += 1
        yield data

    assert read_stream(pieces, "archive", "ref", "amd64")[1] == FACTS
    assert 1 < passes <= scan.MAX_READINGS + 1


def test_documents_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_stream, "MAX_DOCUMENTS_BYTES", 2000)
    with pytest.raises(InputError, match="bytes of documents"):
        read(tar_bytes([file(f"{number}.json", b"{" * 900) for number in range(5)]))


@pytest.mark.parametrize("cut", [0, 600, 3000, 20_000])
def test_a_stream_that_is_cut_short(cut: int) -> None:
    data = docker_archive(LAYERS)
    assert cut < data.index(b"manifest.json")
    with pytest.raises(InputError):
        read(data[:cut])


GOOD = docker_archive(LAYERS[:1], old=True)


@settings(max_examples=200, deadline=None)
@given(
    edits=st.lists(st.tuples(st.integers(0, len(GOOD)), st.binary(min_size=1, max_size=30)), max_size=5),
    cut=st.integers(0, 2 * len(GOOD)),
)
def test_a_changed_stream_is_the_image_or_a_typed_error(edits: list[tuple[int, bytes]], cut: int) -> None:
    data = bytearray(GOOD)
    for at, piece in edits:
        data[at : at + len(piece)] = piece
    try:
        found = read(bytes(data[:cut]), 500)
    except InputError:
        return
    assert found == FACTS[:1]  # whatever else was changed: layers are what their digests say
