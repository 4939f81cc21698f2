"""A writer of wheels and of hostile zip archives: every field of every header can be made to lie."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.writers.environment import record_digest


@dataclass(frozen=True)
class Entry:
    """One member. What is None is written truthfully."""

    name: str | bytes
    data: bytes = b""
    deflate: bool = False
    mode: int = 0o100644
    flags: int | None = None
    method: int | None = None
    size: int | None = None
    """As the directory states it."""
    packed: int | None = None
    crc: int | None = None
    offset: int | None = None
    local_name: bytes | None = None
    zip64: bool = False
    descriptor: bool = False
    """Sizes and checksum after the data instead of in the local header."""
    raw: bytes | None = None
    """The packed bytes, when they are not what ``data`` becomes."""


def zip_bytes(
    entries: Sequence[Entry], *, count: int | None = None, zip64_end: bool = False, tail: bytes = b""
) -> bytes:
    """An archive of ``entries``; ``count`` is what the end record states, ``tail`` follows it."""
    body, directory = b"", b""
    for entry in entries:
        name = entry.name if isinstance(entry.name, bytes) else entry.name.encode()
        flags = entry.flags if entry.flags is not None else (0 if name.isascii() else 0x800)
        flags |= 8 if entry.descriptor else 0
        packed = entry.raw if entry.raw is not None else deflated(entry.data) if entry.deflate else entry.data
        method = entry.method if entry.method is not None else 8 if entry.deflate else 0
        crc = zlib.crc32(entry.data) if entry.crc is None else entry.crc
        size = len(entry.data) if entry.size is None else entry.size
        stated = len(packed) if entry.packed is None else entry.packed
        offset = len(body) if entry.offset is None else entry.offset
        local = (0, 0, 0) if entry.descriptor else (crc, stated & 0xFFFFFFFF, size & 0xFFFFFFFF)
        local_name = name if entry.local_name is None else entry.local_name
        body += struct.pack("<4s5H3L2H", b"PK\3\4", 20, flags, method, 0, 33, *local, len(local_name), 0)
        body += local_name + packed
        body += struct.pack("<4s3L", b"PK\7\x08", crc, len(packed), len(entry.data)) if entry.descriptor else b""
        extra = struct.pack("<HH3Q", 1, 24, size, stated, offset) if entry.zip64 else b""
        shown = (0xFFFFFFFF,) * 3 if entry.zip64 else (size & 0xFFFFFFFF, stated & 0xFFFFFFFF, offset & 0xFFFFFFFF)
        fields = (20, 3, 20, 0, flags, method, 0, 33, crc, shown[1], shown[0], len(name), len(extra), 0, 0, 0)
        directory += struct.pack("<4s4B4H3L5H2L", b"PK\1\2", *fields, entry.mode << 16, shown[2]) + name + extra
    number = len(entries) if count is None else count
    end = b""
    if zip64_end:
        where = len(body) + len(directory)
        end += struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, number, number, len(directory), len(body))
        end += struct.pack("<4sLQL", b"PK\6\7", 0, where, 1)
        end += struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    else:
        end += struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, number, number, len(directory), len(body), 0)
    return body + directory + end + tail


def deflated(data: bytes) -> bytes:
    """Raw deflate data."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def wheel_entries(
    name: str,
    files: Mapping[str, bytes],
    *,
    version: str = "1.0",
    tags: Sequence[str] = ("py3-none-any",),
    pure: bool | None = None,
    requires: Sequence[str] = (),
    rows: Sequence[str] = (),
    unlisted: Sequence[str] = (),
    metadata_name: str | None = None,
    metadata_version: str | None = None,
    deflate: bool = True,
) -> list[Entry]:
    """The members of a wheel; ``rows`` are added to RECORD, files in ``unlisted`` are left out of it."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    root = all(tag.endswith("-any") for tag in tags) if pure is None else pure
    wheel = f"Wheel-Version: 1.0\nRoot-Is-Purelib: {str(root).lower()}\n" + "".join(f"Tag: {tag}\n" for tag in tags)
    metadata = f"Metadata-Version: 2.1\nName: {metadata_name or name}\nVersion: {metadata_version or version}\n"
    metadata += "".join(f"Requires-Dist: {line}\n" for line in requires)
    content = dict(files) | {f"{info}/METADATA": metadata.encode(), f"{info}/WHEEL": wheel.encode()}
    lines = [f"{k},sha256={record_digest(v)},{len(v)}" for k, v in content.items() if k not in unlisted]
    content[f"{info}/RECORD"] = ("\n".join([*lines, *rows, f"{info}/RECORD,,"]) + "\n").encode()
    return [Entry(key, data, deflate=deflate) for key, data in content.items()]


def write_wheel(
    folder: Path, name: str, files: Mapping[str, bytes], *, file: str = "", extra: Sequence[Entry] = (), **parts: object
) -> Path:
    """Write a wheel and return its path; ``parts`` go to :func:`wheel_entries`, ``extra`` members come last."""
    entries = wheel_entries(name, files, **parts)  # type: ignore[arg-type]
    tags = parts.get("tags", ("py3-none-any",))
    first = str(tags[0] if isinstance(tags, list | tuple) else tags)
    path = folder / (file or f"{name.replace('-', '_')}-{parts.get('version', '1.0')}-{first}.whl")
    folder.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zip_bytes([*entries, *extra]))
    return path
