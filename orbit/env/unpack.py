"""Write the paths of an archive's list below a new folder: modes, times, holes; environment.json last."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from orbit.core.amounts import format_bytes
from orbit.env import archive_list, tree
from orbit.env.archive_list import Line
from orbit.env.archive_read import Take
from orbit.env.record import RECORD_PATH
from orbit.errors import InputError

FOLDER_MODE = 0o755
HOLE_BYTES = 64 << 10
ZEROS = bytes(1 << 20)
HELD_MAX_BYTES = 64 << 20
"""Of environment.json, which is held back; that of cu130 has 0.2 MB."""


class Writer:
    """Writes the paths of a list below one new folder. The list has been checked: no name leads through a link."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._root = os.fspath(place)
        self._folders: list[str] = []
        self._handle = -1
        self._holes = False
        self._held: bytearray | None = None
        self._record = b""
        os.mkdir(place, FOLDER_MODE)

    def begin(self, line: Line) -> Take:
        """Open a file; what takes its content."""
        if line.path == RECORD_PATH:
            if line.size > HELD_MAX_BYTES:
                raise InputError(f"{RECORD_PATH}: {format_bytes(line.size)}", fix=archive_list.NOT_OURS)
            self._held = bytearray()
            return self._held.extend
        self._holes = False
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._handle = os.open(f"{self._root}/{line.path}", flags, 0o600)
        return self._take

    def _take(self, data: bytes) -> None:
        if len(data) >= HOLE_BYTES and data[0] == 0 and data == ZEROS[: len(data)]:
            os.lseek(self._handle, len(data), os.SEEK_CUR)
            self._holes = True
            return
        view = memoryview(data)
        while view:
            view = view[os.write(self._handle, view) :]

    def end(self, line: Line) -> None:
        """Finish a file whose content was right, or make a folder or link."""
        path = f"{self._root}/{line.path}"
        if line.is_folder:
            os.mkdir(path, FOLDER_MODE)
            self._folders.append(path)
        elif not line.is_file:
            os.symlink(line.what, path)
            os.utime(path, ns=(tree.EPOCH_NS, tree.EPOCH_NS), follow_symlinks=False)
        elif self._held is not None:
            self._record, self._held = bytes(self._held), None
        else:
            self._close(line.mode & 0o777, line.size)

    def _close(self, mode: int, size: int) -> None:
        handle, self._handle = self._handle, -1
        try:
            if self._holes:
                os.ftruncate(handle, size)
            os.fchmod(handle, mode)
            os.utime(handle, ns=(tree.EPOCH_NS, tree.EPOCH_NS))
        finally:
            os.close(handle)

    def close(self) -> None:
        """Close a file whose content did not come to its end."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def write(self, path: str, data: bytes) -> None:
        """A file that is not in the list."""
        line = Line(path, 0o100644, len(data), "")
        self.begin(line)(data)
        self.end(line)

    def finish(self) -> None:
        """Write environment.json and give folders their modes and times, the deepest first."""
        path = self.place / RECORD_PATH
        path.write_bytes(self._record)
        os.chmod(path, 0o644)
        os.utime(path, ns=(tree.EPOCH_NS, tree.EPOCH_NS))
        for folder in [*reversed(self._folders), self._root]:
            with contextlib.suppress(FileNotFoundError):  # a checkout took the place of what was in it
                os.chmod(folder, FOLDER_MODE)
                os.utime(folder, ns=(tree.EPOCH_NS, tree.EPOCH_NS))
