"""The layer cache: reuse, damage found and written again, one failure stops all."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.files import sha256_file
from orbit.core.store import Store
from orbit.image import cache
from orbit.image.blob import write_blob
from orbit.image.build import ImageResult
from orbit.image.cache import Request, Stream, obtain_layers, shares
from orbit.image.damage import DamagedImage
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


def damage(path: Path) -> None:
    """Flip one bit so that inode, size and time stay what they were."""
    state = path.stat()
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(100)
        byte = file.read(1)
        file.seek(100)
        file.write(bytes([byte[0] ^ 1]))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    path.chmod(0o444)


def blob(store: Store, result: ImageResult, name: str) -> Path:
    layer = next(layer for layer in result.layers if layer.name == name)
    (found,) = store.root.glob(f"entries/layer/*/blob/{layer.digest[7:]}")
    return found


def test_damage_that_shows_nowhere_is_found_by_reading_when_the_last_time_was_long_ago(
    store: Store, build_small: BuildSmall, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build_small(store)
    damage(blob(store, first, "torch"))
    with pytest.raises(DamagedImage, match=r"layer torch \(sha256:\w+\) is damaged"):  # the layout has the same file
        verify_layers(read_layout(first.layout))
    assert all(layer.reused for layer in build_small(store).layers)
    monkeypatch.setattr(cache, "RECHECK_S", 0)
    second = build_small(store)
    assert [layer.name for layer in second.layers if not layer.reused] == ["torch"]
    assert second.digest == first.digest
    verify_layers(read_layout(second.layout))


def test_a_few_blobs_are_read_again_in_each_run_the_oldest_first(
    store: Store, build_small: BuildSmall, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build_small(store)
    read: list[str] = []

    def counting(path: Path) -> str:
        if "layer" in path.parts:
            read.append(path.name)
        return sha256_file(path)

    monkeypatch.setattr(cache, "sha256_file", counting)
    build_small(store)
    assert read == []
    monkeypatch.setattr(cache, "RECHECK_S", 0)
    monkeypatch.setattr(cache, "RECHECK_BYTES", 1)
    for _ in first.layers:
        build_small(store)
    assert sorted(read) == sorted(layer.digest[7:] for layer in first.layers)


def test_a_copied_store_is_read_once_and_used(
    store: Store, build_small: BuildSmall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build_small(store)
    shutil.copytree(store.root, tmp_path / "copy", symlinks=True)
    damage(blob(Store(tmp_path / "copy"), first, "torch"))
    second = build_small(Store(tmp_path / "copy"))
    assert [layer.name for layer in second.layers if not layer.reused] == ["torch"]
    assert second.digest == first.digest
    monkeypatch.setattr(cache, "sha256_file", None)  # nothing is read a second time
    assert all(layer.reused for layer in build_small(Store(tmp_path / "copy")).layers)


def test_a_note_that_cannot_be_read_is_no_note(store: Store, build_small: BuildSmall) -> None:
    first = build_small(store)
    for note in store.root.glob("entries/layer/*/checked.json"):
        note.write_bytes(b"{")
    damage(blob(store, first, "stack"))
    assert [layer.name for layer in build_small(store).layers if not layer.reused] == ["stack"]


@pytest.mark.parametrize(("cores", "wanted"), [(1, (1, 1)), (2, (2, 1)), (3, (3, 1)), (16, (4, 4)), (128, (4, 16))])
def test_cores_are_shared_among_the_layers_under_way(cores: int, wanted: tuple[int, int]) -> None:
    assert shares(cores) == wanted
