"""A thread that works beside a block of code and ends with it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Beside(ABC):
    """Context manager: :meth:`work` runs in a thread called ``name`` until it returns or the block ends."""

    def __init__(self, name: str) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self.work, args=(self._ended,), name=name, daemon=True)

    @abstractmethod
    def work(self, ended: threading.Event) -> None:
        """What is done. ``ended`` is set when the block is over, which then waits for this to return."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
