"""Layers from the store, and the writing of those that are missing: in parallel, all or none.

A layer's key holds everything that decides its bytes, so a layer that is there needs no look at its files.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from orbit.core.console import Progress
from orbit.core.records import convert
from orbit.core.store import Entry, Store
from orbit.image.blob import Codec, LayerBlob, write_blob
from orbit.image.oci import NamedLayer

PARALLEL_LAYERS = 2
"""Each has its own reader, hashes and compression workers; two keep a small machine busy and a large disk too."""
TOLD_EVERY_BYTES = 64 << 20


@dataclass(slots=True)
class _Meter:
    """Bytes that went into layers, of all layers together; also what stops them all when one fails."""

    progress: Progress
    total: int = 0
    done: int = 0
    told: int = 0
    stopped: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def watch(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Pass ``chunks`` on, counting."""
        for chunk in chunks:
            if self.stopped.is_set():
                raise _Stopped
            with self.lock:
                self.done += len(chunk)
                if self.done - self.told >= TOLD_EVERY_BYTES:
                    self.told = self.done
                    self.progress.advance("MB into layers", self.done // 1_000_000, self.total // 1_000_000)
            yield chunk


class _Stopped(Exception):
    """Raised inside a layer's thread because another layer failed or the run was interrupted."""


@dataclass(frozen=True, slots=True)
class Stream:
    """The content of one layer that has to be written."""

    chunks: Iterable[bytes]
    files: int
    size: int
    """Bytes, about: for the progress."""


@dataclass(frozen=True, slots=True)
class Request:
    """One layer: its name, what decides its bytes, and how to get them when the store has none."""

    name: str
    codec: Codec
    inputs: dict[str, Any]
    stream: Callable[[], Stream]


def obtain_layers(requests: Sequence[Request], store: Store, progress: Progress) -> list[tuple[NamedLayer, bool]]:
    """Every requested layer and whether it was there already, in the order of the requests."""
    found = {request.name: find_layer(request, store) for request in requests}
    missing = [request for request in requests if found[request.name] is None]
    if missing:
        progress.step(f"layers: writing {', '.join(request.name for request in missing)}")
    meter = _Meter(progress)
    streams = [(request, request.stream()) for request in missing]
    meter.total = sum(stream.size for _, stream in streams)
    with ThreadPoolExecutor(PARALLEL_LAYERS) as pool:
        # the largest first, so that no large one is left alone at the end
        streams.sort(key=lambda item: -item[1].size)
        jobs = {request.name: pool.submit(_write, request, stream, store, meter) for request, stream in streams}
        try:
            for job in concurrent.futures.as_completed(jobs.values()):
                job.result()
        except BaseException:
            meter.stopped.set()
            pool.shutdown(cancel_futures=True)
            raise
    return [
        (known, True) if (known := found[request.name]) else (jobs[request.name].result(), False)
        for request in requests
    ]


def find_layer(request: Request, store: Store) -> NamedLayer | None:
    """The layer from the store, if its blob is as it was written: same size, same time of last change.

    That is the cheap test; ``orbit image load`` and ``orbit image inspect --verify`` read every byte.
    """
    entry = store.find("layer", request.inputs)
    if entry is None:
        return None
    layer = _named(request.name, entry)
    try:
        state = layer.path.stat()
    except FileNotFoundError:
        intact = False
    else:
        intact = (state.st_size, state.st_mtime_ns) == (layer.blob.size, layer.blob.mtime_ns)
    if not intact:
        store.discard(entry.path)
        return None
    return layer


def _write(request: Request, stream: Stream, store: Store, meter: _Meter) -> NamedLayer:
    def work(place: Path) -> dict[str, Any]:
        blob = write_blob(meter.watch(stream.chunks), place / "blob", request.codec, files=stream.files)
        outputs: dict[str, Any] = msgspec.to_builtins(blob)
        return outputs

    return _named(request.name, store.obtain("layer", request.inputs, work))


def _named(name: str, entry: Entry) -> NamedLayer:
    blob = convert(entry.record.outputs, LayerBlob, f"{entry.path}: outputs")
    return NamedLayer(name=name, blob=blob, path=entry.path / "blob" / blob.digest.removeprefix("sha256:"))
