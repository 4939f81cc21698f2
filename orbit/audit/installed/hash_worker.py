"""A program of its own (standard library only): hashes the files named on stdin, one digest a line on stdout.

stdin holds ``algorithm NUL size NUL path NUL`` for each file (size -1: any), stdout one line for each in the same
order: the digest in RECORD's spelling (urlsafe base64 without padding) or ``!`` and the reason. A process and not a
thread: 75,000 small files spend more time under the interpreter's lock than in the hash function.
"""

from __future__ import annotations

import base64
import hashlib
import os
import stat
import sys

BUFFER_BYTES = 1 << 18
"""Fits the second-level cache, so the hash function reads what was just copied."""
SPARSE_BYTES, SPARSE_RATIO = 1 << 30, 64
"""A larger file of which the disk holds less than one part in so many (``truncate -s 1T``) is not read: no wheel
brings one, and reading a terabyte of zeros takes an hour."""


def refused(info: os.stat_result, size: int) -> str:
    """Why a file is not read, as ``!reason``; empty for one that is."""
    if not stat.S_ISREG(info.st_mode):
        return "!not a regular file"
    if size not in (-1, info.st_size):
        return "!of another size"
    if info.st_size > SPARSE_BYTES and info.st_blocks * 512 * SPARSE_RATIO < info.st_size:
        return "!mostly holes"
    return ""


def digest_of(algorithm: bytes, size: int, path: bytes, buffer: bytearray, view: memoryview) -> str:
    """The digest of one file, or ``!reason``. A file that is not regular or not of ``size`` is not read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return f"!{error.strerror}"
    try:
        info = os.fstat(handle)
        if refusal := refused(info, size):
            return refusal
        state = hashlib.sha256() if algorithm == b"sha256" else hashlib.new(algorithm.decode())
        done = 0
        while count := os.readv(handle, (buffer,)):
            state.update(view[:count])
            done += count
            if done > info.st_size:
                return "!grew while it was read"
            if count < BUFFER_BYTES and done >= info.st_size:
                break  # saves a read at the end; file systems in user space may give less than asked in the middle
        return base64.urlsafe_b64encode(state.digest()).rstrip(b"=").decode()
    except (OSError, ValueError) as error:
        return f"!{error}"
    finally:
        os.close(handle)


def main() -> None:
    """Hash everything named on stdin. A request that was cut short ends the program: its answers would be shifted."""
    *fields, rest = sys.stdin.buffer.read().split(b"\0")
    if rest:
        raise ValueError("the request was cut short")
    buffer = bytearray(BUFFER_BYTES)
    view = memoryview(buffer)
    lines = [
        digest_of(algorithm, int(size), path, buffer, view)
        for algorithm, size, path in zip(fields[0::3], fields[1::3], fields[2::3], strict=True)
    ]
    sys.stdout.write("".join(line.replace("\n", " ") + "\n" for line in lines))


if __name__ == "__main__":
    main()
