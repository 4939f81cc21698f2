"""Tries folders out, in a process of its own: write, rename, sync, read back, execute, lock. Standard library alone.

It reads an order (JSON) and prints one line of JSON for each folder as soon as it is done, so that a file system that
never answers takes only its own folder with it. A folder that is not there yet is not made: the nearest one above it
is tried.
"""

from __future__ import annotations

import errno
import fcntl
import json
import mmap
import os
import sys
import time
from collections.abc import Callable
from typing import Any

UNSUPPORTED = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOLCK, errno.EINVAL, errno.EPERM}
HELD = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}
CONTENT = bytes(range(256)) * 16

type Lock = Callable[[int, int], object]


def main() -> None:
    """Order on stdin: ``{"folders": [...]}``."""
    for folder in json.load(sys.stdin)["folders"]:
        sys.stdout.write(json.dumps(try_folder(folder)) + "\n")
        sys.stdout.flush()


def try_folder(folder: str) -> dict[str, Any]:
    """What works there. ``problem`` says what does not even let a file be written."""
    found: dict[str, Any] = {"folder": folder, "at": "", "problem": "", "error": ""}
    began = time.monotonic()
    try:
        found["at"] = at = _existing(folder)
        room = os.statvfs(at)
        found |= {
            "total": room.f_blocks * room.f_frsize,
            "free": room.f_bavail * room.f_frsize,
            "used": (room.f_blocks - room.f_bfree) * room.f_frsize,
            "inodes": room.f_files,
            "inodes_free": room.f_favail,
        }
        found |= _try_file(at)
    except OSError as error:
        found["problem"] = f"{error.filename or folder}: {error.strerror}"
        found["error"] = errno.errorcode.get(error.errno or 0, "")
    found["seconds"] = round(time.monotonic() - began, 4)
    return found


def try_lock(one: int, other: int, lock: Lock, *, second: Callable[[int, Lock], bool]) -> str:
    """``works``, ``shared`` (two holders at once), ``held`` (by nobody that can be) or ``missing CODE``.

    ``one`` and ``other`` are two descriptors of a fresh file that nobody else knows of; ``second`` tells whether
    somebody else gets the lock as well.
    """
    try:
        lock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in HELD:
            return "held"
        return f"missing {errno.errorcode.get(error.errno or 0, error.errno)}"
    return "shared" if second(other, lock) else "works"


def second_descriptor(other: int, lock: Lock) -> bool:
    """flock(2) belongs to an open file: another one of the same process is kept out as well."""
    try:
        lock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def second_process(other: int, lock: Lock) -> bool:
    """Locks of fcntl(2) belong to a process: only another one is kept out."""
    child = os.fork()
    if child == 0:
        os._exit(1 if second_descriptor(other, lock) else 0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def _existing(folder: str) -> str:
    """The folder, or the nearest one above it that is there. Raises OSError for anything but "not there"."""
    at = folder
    while True:
        try:
            os.stat(at)
        except FileNotFoundError:
            above = os.path.dirname(at)
            if above == at:
                raise
            at = above
        else:
            return at


def _try_file(at: str) -> dict[str, Any]:
    """Write, sync, rename, read back, execute and lock a file of our own in the folder ``at``; nothing is left."""
    name = os.path.join(at, f".orbit-preflight-{os.getpid()}-{time.monotonic_ns()}")
    final = f"{name}.done"
    one = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700)
    other = -1
    try:
        os.write(one, CONTENT)
        os.fsync(one)
        os.rename(name, final)
        handle = os.open(at, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        other = os.open(final, os.O_RDWR | os.O_CLOEXEC)
        if os.read(other, len(CONTENT)) != CONTENT:
            raise OSError(errno.EIO, "what was read back is not what was written", final)
        return {
            "executes": _executes(other),
            "flock": try_lock(one, other, fcntl.flock, second=second_descriptor),
            "fcntl": try_lock(one, other, fcntl.lockf, second=second_process),
        }
    finally:
        os.close(one)
        if other >= 0:
            os.close(other)
        for path in (name, final):
            try:
                os.unlink(path)
            except FileNotFoundError:
                continue


def _executes(handle: int) -> bool:
    """Whether code may be mapped from there, which is what loading a library does."""
    try:
        mmap.mmap(handle, mmap.PAGESIZE, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC).close()
    except OSError:
        return False
    return True
