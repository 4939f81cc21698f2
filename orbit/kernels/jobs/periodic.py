"""Something to do now and then while a block runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def every(seconds: float, work: Callable[[], None], name: str) -> Iterator[None]:
    """Call ``work`` from a thread called ``name`` every ``seconds`` until the block ends; then none of it runs."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(seconds):
            work()

    thread = threading.Thread(target=watch, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
