"""A program of its own: counts the operations of the images of device code that come on stdin.

stdin: for each image :data:`orbit.audit.deep.depth_worker.REQUEST` and its payload. stdout: a JSON line for each, an
:class:`orbit.kernels.wheels.instructions.Counted`. It holds one image at a time and opens no file.
"""

from __future__ import annotations

import sys
from typing import BinaryIO

import msgspec

from orbit.audit.binary.elf import MalformedBinary
from orbit.audit.binary.payload import unpack
from orbit.audit.deep.depth_worker import COMPRESSIONS, REQUEST, read_exactly
from orbit.kernels.wheels.instructions import Counted, operations


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until ``requests`` ends. A request that was cut short ends the program."""
    while head := requests.read(REQUEST.size):
        _kind, compression, size, length = REQUEST.unpack(head)
        answers.write(
            msgspec.json.encode(_answer(COMPRESSIONS[compression], size, read_exactly(requests, length))) + b"\n"
        )


def _answer(compression: str, size: int, payload: bytes) -> Counted:
    try:
        return Counted(dict(operations(unpack(payload, compression, size, "an image"))), "")
    except MalformedBinary as error:
        return Counted({}, error.what)


def main() -> None:
    """Answer what is asked on stdin."""
    serve(sys.stdin.buffer, sys.stdout.buffer)
