"""Files that a job writes, read as they grow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

PIECE_BYTES = 1 << 20


def follow(files: Callable[[], Iterable[Path]], ended: Callable[[], bool], *, pause_s: float) -> Iterator[bytes]:
    """What stands in ``files`` and what is added to them, until ``ended``; both are asked anew every ``pause_s``."""
    places: dict[Path, int] = {}
    while True:
        last = ended()  # asked first: what is written until then is read below
        for path in files():
            with path.open("rb") as file:
                file.seek(places.get(path, 0))
                while piece := file.read(PIECE_BYTES):
                    yield piece
                places[path] = file.tell()
        if last:
            return
        time.sleep(pause_s)
