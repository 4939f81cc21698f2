"""Layers from the store, and the writing of those that are missing: in parallel, all or none.

A layer's key holds everything that decides its bytes, so a layer that is there needs no look at its files.

A blob that lies in the store may have been damaged since. It is compared with its digest, byte by byte, when it is not
the file that was last compared (inode, size and time of the last write are noted beside it), and when that was long
ago: then a few hundred megabytes in each run, what was compared least recently first.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from orbit.core.console import BYTES, Progress
from orbit.core.files import sha256_file
from orbit.core.records import Record, convert, dump_json, load_json
from orbit.core.store import Entry, Store
from orbit.errors import InputError
from orbit.image.blob import WORKERS_MAX, Codec, LayerBlob, write_blob
from orbit.image.damage import DamagedImage
from orbit.image.layout_writer import NamedLayer

LAYERS_MAX = 4
"""Layers written at a time: each is read, put together and hashed by two threads, which four of keep a disk busy."""
TOLD_EVERY_BYTES = 64 << 20
RECHECK_S = 86_400
"""A blob is compared with its digest again when the last time was longer ago."""
RECHECK_BYTES = 512 << 20
"""So much of them in one run, or one blob if that is larger: 0.3 s of one core (1.8 GB/s)."""
CHECKED_NAME = "checked.json"


@dataclass(slots=True)
class _Meter:
    """Bytes that went into layers, of all layers together; also what stops them all when one fails."""

    progress: Progress
    total: int = 0
    done: int = 0
    told: int = 0
    stopped: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def watch(self, chunks: Iterable[bytes]) -> Generator[bytes]:
        """Pass ``chunks`` on, counting; what they are read from is closed at the end, whatever it is."""
        try:
            for chunk in chunks:
                if self.stopped.is_set():
                    raise _Stopped
                with self.lock:
                    self.done += len(chunk)
                    if self.done - self.told >= TOLD_EVERY_BYTES:
                        self.told = self.done
                        self.progress.advance("writing layers", self.done, self.total, BYTES)
                yield chunk
        finally:
            if isinstance(chunks, Generator):
                chunks.close()


class _Stopped(Exception):
    """Raised inside a layer's thread because another layer failed or the run was interrupted."""


@dataclass(frozen=True, slots=True)
class Stream:
    """The content of one layer that has to be written."""

    chunks: Iterable[bytes]
    files: int
    size: int
    """Bytes, about: for the progress."""
    diff_id: str = ""
    """What the sha256 of all ``chunks`` must be, ``sha256:...``; empty when only the writing tells."""


@dataclass(frozen=True, slots=True)
class Request:
    """One layer: its name, what decides its bytes, and how to get them when the store has none."""

    name: str
    codec: Codec
    inputs: dict[str, Any]
    stream: Callable[[], Stream]


class Checked(Record, frozen=True, kw_only=True):
    """``checked.json`` of a layer's entry: which file was compared with its digest, and when."""

    stamp: tuple[int, int, int]
    """Inode, size and modification time (ns). The change time does not serve: each layout is one more link."""
    at: float
    """Seconds since 1970."""


def obtain_layers(requests: Sequence[Request], store: Store, progress: Progress) -> list[tuple[NamedLayer, bool]]:
    """Every requested layer and whether it was there already, in the order of the requests."""
    found = find_layers(requests, store, progress)
    missing = [request for request in requests if request.name not in found]
    if missing:
        progress.step(f"layers: writing {', '.join(request.name for request in missing)}")
    meter = _Meter(progress)
    streams = [(request, request.stream()) for request in missing]
    meter.total = sum(stream.size for _, stream in streams)
    at_once, workers = shares(len(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(at_once) as pool:
        # the largest first, so that no large one is left alone at the end
        streams.sort(key=lambda item: -item[1].size)
        jobs = {
            request.name: pool.submit(_write, request, stream, store, meter, workers) for request, stream in streams
        }
        try:
            for job in concurrent.futures.as_completed(jobs.values()):
                job.result()
        except BaseException:
            meter.stopped.set()
            pool.shutdown(cancel_futures=True)
            raise
    return [
        (known, True) if (known := found.get(request.name)) else (jobs[request.name].result(), False)
        for request in requests
    ]


def shares(cores: int) -> tuple[int, int]:
    """(layers at a time, threads that compress each): memory goes with their product, about 20 MB for each thread."""
    layers = min(cores, LAYERS_MAX)
    return layers, min(-(-cores // layers), WORKERS_MAX)


def find_layers(requests: Sequence[Request], store: Store, progress: Progress) -> dict[str, NamedLayer]:
    """The layers the store has, by name. A damaged one is removed from it, with a line, and counts as absent.

    ``orbit image load``, ``push``, ``smoke`` and ``orbit image inspect --verify`` compare every byte they read.
    """
    found: dict[str, tuple[NamedLayer, Entry]] = {}
    now = time.time()
    doubtful: list[str] = []
    overdue: list[tuple[float, str]] = []
    for request in requests:
        entry = store.find("layer", request.inputs)
        if entry is None:
            continue
        layer = _named(request.name, entry)
        found[request.name] = layer, entry
        checked = _checked(entry)
        if checked is None or checked.stamp != _stamp(layer.path):
            doubtful.append(request.name)
        elif not 0 <= now - checked.at < RECHECK_S:
            overdue.append((checked.at, request.name))
    read = 0
    for _, name in sorted(overdue):
        if read < RECHECK_BYTES:
            doubtful.append(name)
            read += found[name][0].blob.size
    with ThreadPoolExecutor(shares(len(os.sched_getaffinity(0)))[0]) as pool:
        whole = pool.map(lambda name: _is_whole(*found[name]), doubtful)
        for name, good in zip(doubtful, whole, strict=True):
            if not good:
                progress.step(f"layer {name} in the store is damaged: it is written again")
                store.discard(found.pop(name)[1].path)
    return {name: layer for name, (layer, _) in found.items()}


def _is_whole(layer: NamedLayer, entry: Entry) -> bool:
    """Compare a blob with its digest, and note that it was."""
    stamp = _stamp(layer.path)
    if stamp is None or f"sha256:{sha256_file(layer.path)}" != layer.blob.digest:
        return False
    _note(entry, stamp)
    return True


def _note(entry: Entry, stamp: tuple[int, int, int]) -> None:
    with contextlib.suppress(OSError):  # a store that others own, or a full disk: it is compared again next time
        dump_json(entry.path / CHECKED_NAME, Checked(stamp=stamp, at=time.time()))


def _checked(entry: Entry) -> Checked | None:
    try:
        return load_json(entry.path / CHECKED_NAME, Checked)
    except InputError:
        return None


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        state = path.stat()
    except FileNotFoundError:
        return None
    return state.st_ino, state.st_size, state.st_mtime_ns


def _write(request: Request, stream: Stream, store: Store, meter: _Meter, workers: int) -> NamedLayer:
    def work(place: Path) -> dict[str, Any]:
        with contextlib.closing(meter.watch(stream.chunks)) as chunks:
            blob = write_blob(chunks, place / "blob", request.codec, files=stream.files, workers=workers)
        if stream.diff_id not in ("", blob.diff_id):
            raise DamagedImage(store.root, stream.diff_id, f"what was read is {blob.diff_id}", layer=request.name)
        outputs: dict[str, Any] = msgspec.to_builtins(blob)
        return outputs

    entry = store.obtain("layer", request.inputs, work)
    layer = _named(request.name, entry)
    if stamp := _stamp(layer.path):
        _note(entry, stamp)
    return layer


def _named(name: str, entry: Entry) -> NamedLayer:
    blob = convert(entry.record.outputs, LayerBlob, f"{entry.path}: outputs")
    return NamedLayer(name=name, blob=blob, path=entry.path / "blob" / blob.digest.removeprefix("sha256:"))
