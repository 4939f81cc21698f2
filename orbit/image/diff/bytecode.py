"""Two ``.pyc`` files compared: header, then code. Nothing in them is loaded.

A header has 16 bytes (PEP 552): magic number of the interpreter, flags, then time and size of the source, or its hash.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from orbit.audit.reports.diff import Change
from orbit.kernels.wheels.causes import explain, texts_of

HEADER = struct.Struct("<4sIII")
MAGIC_END = b"\r\n"
BY_HASH = 1
REFERENCE = 0x80
"""Set in the type byte of an object of the marshal format that something refers to later (CPython's Python/marshal.c):
whether it is depends on who else held the object when it was written."""
TEXT_WITH_LENGTH = re.compile(rb"(?s).?[\x20-\x7e\t]{4,}")


def is_pyc(data: bytes) -> bool:
    """Whether the first bytes can be those of a ``.pyc`` file."""
    return len(data) >= HEADER.size and data[2:4] == MAGIC_END


def compare_bytecode(left: bytes, right: bytes) -> tuple[tuple[str, ...], tuple[Change, ...]]:
    """(causes, header fields that differ) of two ``.pyc`` files."""
    fields = tuple(_fields(left[: HEADER.size], right[: HEADER.size]))
    names = {field.name for field in fields}
    causes: list[str] = []
    if "magic" in names:
        causes.append("interpreter")
    if "flags" in names:
        causes.append("pyc-check")
    if "source time" in names:
        causes.append("pyc-time")
    if names & {"source size", "source hash"}:
        causes.append("pyc-source")
    causes += _code(left[HEADER.size :], right[HEADER.size :])
    return tuple(dict.fromkeys(causes)), fields


def _fields(left: bytes, right: bytes) -> Iterator[Change]:
    one, two = HEADER.unpack(left), HEADER.unpack(right)
    if one[0] != two[0]:
        yield Change(name="magic", before=str(_magic(one[0])), after=str(_magic(two[0])))
    if one[1] != two[1]:
        yield Change(name="flags", before=str(one[1]), after=str(two[1]))
    elif one[1] & BY_HASH:
        if left[8:] != right[8:]:
            yield Change(name="source hash", before=left[8:].hex(), after=right[8:].hex())
    else:
        for place, name in ((2, "source time"), (3, "source size")):
            if one[place] != two[place]:
                yield Change(name=name, before=str(one[place]), after=str(two[place]))


def _magic(word: bytes) -> int:
    return int.from_bytes(word[:2], "little")


def _code(left: bytes, right: bytes) -> tuple[str, ...]:
    if left == right:
        return ()
    if len(left) == len(right) and all((a ^ b) in (0, REFERENCE) for a, b in zip(left, right, strict=True)):
        return ("pyc-refs",)
    texts = explain(texts_of(left), texts_of(right))
    rest = [TEXT_WITH_LENGTH.sub(b"\0", data) for data in (left, right)]
    if texts.causes and texts.explained and rest[0] == rest[1]:
        return tuple(sorted(texts.causes))
    return ("bytecode",)
