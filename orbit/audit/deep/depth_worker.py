"""A program of its own: reads images of device code from stdin, writes what is in them to stdout.

stdin: one line with the guard texts (a regular expression), then for each image :data:`REQUEST` and its payload.
stdout: a zstd stream of msgpack values, each with its length in front: an :class:`Answer` per image, in the order of
the requests. A process and not a thread: most of the time goes into symbol tables, under the interpreter's lock. It
opens no file, so nothing can be reached through it.
"""

from __future__ import annotations

import re
import struct
import sys
from typing import BinaryIO

import msgspec
import zstandard

from orbit.audit.binary.cubin import Kernel, read_cubin, read_ptx
from orbit.audit.binary.elf import MalformedBinary
from orbit.audit.binary.payload import unpack

REQUEST = struct.Struct("<BBQQ")
"""Kind and compression (positions in :data:`KINDS` and :data:`COMPRESSIONS`), bytes unpacked, bytes that follow."""
KINDS = ("elf", "ptx")
COMPRESSIONS = ("", "lz4", "zstd")
LENGTH = struct.Struct("<I")


class Answer(msgspec.Struct, array_like=True, frozen=True):
    """What is in one image."""

    arch: str
    """As the content states it."""
    unpacked_bytes: int
    kernels: tuple[Kernel, ...]
    problem: str = ""
    """Why it could not be read; then it has no kernels."""


def answer(kind: str, compression: str, size: int, payload: bytes, guards: re.Pattern[bytes]) -> Answer:
    """Unpack and read one image; what is wrong with it becomes the answer's ``problem``."""
    try:
        data = unpack(payload, compression, size, "")
        del payload  # the two together are the most that is held
        code = read_ptx(data) if kind == "ptx" else read_cubin(data, "", guards)
    except MalformedBinary as error:
        return Answer("", 0, (), error.what.removeprefix(": "))
    except MemoryError:
        return Answer("", 0, (), f"does not fit into memory: {size} bytes")
    return Answer(code.arch, len(data), code.kernels)


def read_exactly(stream: BinaryIO, length: int) -> bytes:
    """``length`` bytes. Raises ValueError when there are fewer."""
    data = stream.read(length)
    if len(data) != length:
        raise ValueError("the request was cut short")
    return data


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until ``requests`` ends. A request that was cut short ends the program: its answers would be shifted."""
    guards = re.compile(requests.readline().rstrip(b"\n"))
    encoder = msgspec.msgpack.Encoder()
    with zstandard.ZstdCompressor(level=1).stream_writer(answers, closefd=False) as packed:
        while head := requests.read(REQUEST.size):
            kind, compression, size, length = REQUEST.unpack(head)
            found = answer(KINDS[kind], COMPRESSIONS[compression], size, read_exactly(requests, length), guards)
            value = encoder.encode(found)
            packed.write(LENGTH.pack(len(value)) + value)


def main() -> None:
    """Answer what is asked on stdin."""
    serve(sys.stdin.buffer, sys.stdout.buffer)
