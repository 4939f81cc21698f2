"""The layer cache: reuse by a cheap test, damage written again, one failure stops all."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.image import cache
from orbit.image.blob import write_blob
from orbit.image.cache import Request, Stream, obtain_layers
from orbit.image.oci import read_layout, verify_layers
from tests.image.conftest import BuildSmall


def test_a_blob_that_was_touched_in_the_cache_is_written_again(store: Store, build_small: BuildSmall) -> None:
    first = build_small(store)
    torch = next(layer for layer in first.layers if layer.name == "torch")
    (cached,) = store.root.glob(f"entries/layer/*/blob/{torch.digest[7:]}")
    data = bytearray(cached.read_bytes())
    data[100] ^= 1
    cached.chmod(0o644)
    cached.write_bytes(data)
    second = build_small(store)
    assert [layer.name for layer in second.layers if not layer.reused] == ["torch"]
    assert second.digest == first.digest
    verify_layers(read_layout(second.layout))


def test_a_blob_that_is_gone_from_the_cache_is_written_again(store: Store, build_small: BuildSmall) -> None:
    first = build_small(store)
    (cached,) = store.root.glob(f"entries/layer/*/blob/{first.layers[0].digest[7:]}")
    cached.unlink()
    assert build_small(store).digest == first.digest


def test_one_failing_layer_stops_the_others(
    store: Store, build_small: BuildSmall, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = write_blob

    def fail_torch(chunks: object, place: Path, *args: object, **rest: object) -> object:
        if "torch" in str(place) or rest["files"] == 2:
            raise OSError(28, "No space left on device")
        return real(chunks, place, *args, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(cache, "write_blob", fail_torch)
    with pytest.raises(OSError, match="No space"):
        build_small(store)
    monkeypatch.setattr(cache, "write_blob", real)
    verify_layers(read_layout(build_small(store).layout))


def request(name: str, chunks: object, size: int = 1) -> Request:
    assert callable(chunks)
    return Request(name, "zstd", {"layer": name}, lambda: Stream(chunks=chunks(), files=1, size=size))


def test_layers_come_in_the_order_asked_for_whatever_their_size(store: Store) -> None:
    asked = [request(name, lambda: [b"x" * 100], size) for name, size in (("small", 1), ("large", 100), ("middle", 50))]
    assert [layer.name for layer, _ in obtain_layers(asked, store, Silent())] == ["small", "large", "middle"]
    assert all(reused for _, reused in obtain_layers(asked, store, Silent()))


def test_a_layer_under_way_stops_when_another_fails(store: Store) -> None:
    started = threading.Event()

    def endless() -> object:
        while True:
            started.set()
            yield os.urandom(1000)

    def failing() -> object:
        assert started.wait(10)
        yield b"x"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        obtain_layers([request("endless", endless, 2), request("failing", failing, 1)], store, Silent())
    assert list((store.root / "tmp").iterdir()) == []
    assert not (store.root / "entries" / "layer").exists()
