"""Remembered layers: believed while the file is as it was, forgotten when anything is not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from orbit.audit.images import layer_cache
from orbit.audit.images.layer_cache import LayerCache
from orbit.audit.images.layers import read_layer
from tests.writers.tiny_image import file, tar_bytes

FACTS, _ = read_layer([tar_bytes([file("a", b"x")])], "x")
DIGEST = "ab" * 32


@pytest.fixture
def blob(tmp_path: Path) -> Path:
    path = tmp_path / "blob"
    path.write_bytes(b"content")
    return path


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_cache, "SETTLE_NS", -(10**9))


def test_facts_come_back(tmp_path: Path) -> None:
    cache = LayerCache(tmp_path / "cache")
    assert cache.load(DIGEST) is None
    cache.save(DIGEST, FACTS)
    assert LayerCache(tmp_path / "cache").load(DIGEST) == FACTS


def test_a_digest_is_believed_while_the_file_is_as_it_was(tmp_path: Path, blob: Path) -> None:
    cache = LayerCache(tmp_path / "cache")
    assert cache.seen(blob, 0, 7) is None
    cache.remember(blob, 0, 7, DIGEST, "zstd")
    found = cache.seen(blob, 0, 7)
    assert found is not None
    assert (found.digest, found.codec) == (DIGEST, "zstd")
    assert cache.seen(blob, 1, 6) is None
    blob.write_bytes(b"CONTENT")
    assert cache.seen(blob, 0, 7) is None


def test_an_edit_that_restores_the_time_is_seen(tmp_path: Path, blob: Path) -> None:
    cache = LayerCache(tmp_path / "cache")
    cache.remember(blob, 0, 7, DIGEST, "zstd")
    info = blob.stat()
    blob.write_bytes(b"CONTENT")
    os.utime(blob, ns=(info.st_atime_ns, info.st_mtime_ns))
    assert cache.seen(blob, 0, 7) is None


def test_a_fresh_file_is_not_believed(tmp_path: Path, blob: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_cache, "SETTLE_NS", 10**12)
    cache = LayerCache(tmp_path / "cache")
    cache.remember(blob, 0, 7, DIGEST, "zstd")
    assert cache.seen(blob, 0, 7) is None


def test_a_file_that_is_gone_is_not_known(tmp_path: Path, blob: Path) -> None:
    cache = LayerCache(tmp_path / "cache")
    cache.remember(blob, 0, 7, DIGEST, "zstd")
    blob.unlink()
    assert cache.seen(blob, 0, 7) is None


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[:-1],
    "one byte": lambda data: data[:40] + b"?" + data[41:],
    "empty": lambda _data: b"",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_damaged_cache_is_an_empty_one(tmp_path: Path, blob: Path, change: str) -> None:
    cache = LayerCache(tmp_path / "cache")
    cache.save(DIGEST, FACTS)
    cache.remember(blob, 0, 7, DIGEST, "zstd")
    for path in (tmp_path / "cache").rglob("*"):
        if path.is_file():
            path.write_bytes(CHANGES[change](path.read_bytes()))
    assert cache.load(DIGEST) is None
    assert cache.seen(blob, 0, 7) is None


def test_facts_of_other_readers_are_not_believed_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    LayerCache(tmp_path / "cache").save(DIGEST, FACTS)
    monkeypatch.setattr(layer_cache, "READERS", layer_cache.READERS[1:])
    other = LayerCache(tmp_path / "cache")
    assert other.load(DIGEST) is None
    other.save("cd" * 32, FACTS)
    assert [path.name for path in (tmp_path / "cache").rglob("*.facts")] == [f"{'cd' * 32}.facts"]


@pytest.fixture
def named(tmp_path: Path) -> Path:
    """A blob of a layout: a file called by its digest."""
    path = tmp_path / "one" / "blobs" / "sha256" / DIGEST
    path.parent.mkdir(parents=True)
    path.write_bytes(b"content")
    return path


def test_more_links_to_a_blob_are_no_change_and_known_under_every_name(tmp_path: Path, named: Path) -> None:
    cache = LayerCache(tmp_path / "cache")
    cache.remember(named, 0, 7, DIGEST, "zstd")
    other = tmp_path / "two" / "blobs" / "sha256" / DIGEST
    other.parent.mkdir(parents=True)
    before = named.stat().st_ctime_ns
    while named.stat().st_ctime_ns == before:  # clocks have ticks
        other.unlink(missing_ok=True)
        os.link(named, other)
    for path in (named, other):
        found = cache.seen(path, 0, 7)
        assert found is not None
        assert found.digest == DIGEST
    named.unlink()
    assert cache.seen(other, 0, 7) is not None


def test_a_blob_that_was_written_to_or_replaced_is_not_known(tmp_path: Path, named: Path) -> None:
    cache = LayerCache(tmp_path / "cache")
    cache.remember(named, 0, 7, DIGEST, "zstd")
    info = named.stat()
    os.utime(named, ns=(info.st_atime_ns, info.st_mtime_ns + 1))
    assert cache.seen(named, 0, 7) is None
    os.utime(named, ns=(info.st_atime_ns, info.st_mtime_ns))
    assert cache.seen(named, 0, 7) is not None
    copy = named.with_name("copy")
    copy.write_bytes(b"CONTENT")
    os.utime(copy, ns=(info.st_atime_ns, info.st_mtime_ns))
    copy.replace(named)
    assert cache.seen(named, 0, 7) is None
