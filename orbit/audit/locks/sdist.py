"""Whether a source archive can be built at all: are the native sources that its setup.py names in it?

Some archives on the index were made without the folder of C++ and CUDA sources; every build of them fails after minutes
of preparation. The archive is streamed; nothing is unpacked, executed or written.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator

import msgspec

from orbit.audit.images.decompress import decompressed
from orbit.audit.images.tar_stream import TarStream
from orbit.core.records import Record
from orbit.errors import InputError

MAX_BYTES = 64 << 20
"""Larger archives are not fetched; flash-attn's, with CUTLASS in it, has 8 MB."""
MAX_UNPACKED_BYTES = 1 << 30
MAX_SETUP_BYTES = 1 << 20
MAX_MEMBERS = 200_000
SOURCE = re.compile(r"""['"](?P<path>[^'"\s{}*]{1,300}\.(?:cu|cuh|cpp|cc|cxx|c|hip))['"]""")
"""A literal in setup.py that names one native source file."""


class SdistFacts(Record, frozen=True, kw_only=True):
    """What matters of a source archive."""

    named: tuple[str, ...]
    """Native sources that setup.py names, as written."""
    absent: tuple[str, ...]
    """Those of them of whose file name nothing is in the archive."""
    members: int

    @property
    def hollow(self) -> bool:
        """Whether it names native sources and has none of them."""
        return bool(self.named) and self.absent == self.named


def read_sdist(data: bytes, filename: str) -> SdistFacts:
    """Judge the bytes of an sdist (``.tar.gz`` or ``.zip``). Raises :class:`InputError` when it cannot be unpacked."""
    try:
        return _judged(_zip(data) if filename.endswith(".zip") else _tar(data, filename), filename)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError, ValueError) as error:
        raise InputError(f"{filename}: not a whole archive: {error}", fix="download it again") from None


def _judged(members: Iterable[tuple[str, Iterable[bytes]]], filename: str) -> SdistFacts:
    names: set[str] = set()
    named: list[str] = []
    count = 0
    for path, content in members:
        count += 1
        if count > MAX_MEMBERS:
            raise InputError(f"{filename}: more than {MAX_MEMBERS} members", fix="this is no source archive")
        names.add(path.rpartition("/")[2])
        if path.count("/") == 1 and path.endswith("/setup.py"):
            text = b"".join(content)[:MAX_SETUP_BYTES].decode("utf-8", "replace")
            named = list(dict.fromkeys(match["path"] for match in SOURCE.finditer(text)))
    if not count:
        raise InputError(f"{filename}: nothing is in it", fix="download it again")
    return SdistFacts(
        named=tuple(named),
        absent=tuple(path for path in named if path.rpartition("/")[2] not in names),
        members=count,
    )


def _tar(data: bytes, filename: str) -> Iterator[tuple[str, Iterable[bytes]]]:
    stream = TarStream(_limited(decompressed([data], filename), filename), filename)
    for member in stream:
        yield member.path, (bytes(piece) for piece in stream.content())
    stream.drain()  # a stream that is cut short shows at its end


def _limited(pieces: Iterable[bytes], filename: str) -> Iterator[bytes]:
    total = 0
    for piece in pieces:
        total += len(piece)
        if total > MAX_UNPACKED_BYTES:
            raise InputError(f"{filename}: unpacks to more than {MAX_UNPACKED_BYTES >> 20} MB", fix="do not build it")
        yield piece


def _zip(data: bytes) -> Iterator[tuple[str, Iterable[bytes]]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            yield info.filename, _zip_member(archive, info)


def _zip_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(info) as file:
        yield file.read(MAX_SETUP_BYTES)


def encode(facts: SdistFacts) -> bytes:
    """As it is remembered."""
    return msgspec.msgpack.encode(facts)
