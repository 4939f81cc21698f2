"""What a wheel says of itself without its content: members, METADATA, WHEEL, RECORD. Remembered by the wheel's sha256.

Facts made from it are those of :mod:`orbit.audit.archives.wheels` with everything left out that only the content
tells: no device code, no dynamic facts, no digests but the promised ones.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import zstandard

from orbit.audit.archives.wheel_disorder import Seen, disorders_of
from orbit.audit.archives.wheel_names import WheelName, read_name
from orbit.audit.archives.wheels import WheelFacts, fact_of, info_folder, place_of
from orbit.audit.archives.zip_source import Member, ZipSource
from orbit.audit.facts import Layout, SharedObject, join
from orbit.audit.files.texts import is_wanted
from orbit.audit.installed.dists import read_dist
from orbit.audit.known.policies import load_policies, promise_of
from orbit.audit.locks.remote import RemoteZip
from orbit.core.records import Record

FORMAT = 1
"""Raised whenever the meaning of a remembered file changes: older ones are read anew."""
MAX_TEXT_BYTES = 32 << 20
"""The longest RECORD that we know has 2 MB."""
MAX_FILE_BYTES = 256 << 20
"""Of a remembered file, unpacked."""
TEXTS = re.compile(r"^[^/]+\.dist-info/(METADATA|WHEEL|RECORD|top_level\.txt|entry_points\.txt)$|^[^/]+\.pth$")
LIBRARY = re.compile(r"\.so(\.\d+)*$")


class Row(Record, frozen=True, array_like=True):
    """One member of the archive."""

    name: bytes
    mode: int
    size: int
    """Bytes when unpacked, as stated."""
    problem: str
    """See :class:`orbit.audit.archives.zip_source.Member`."""


class WheelMetadata(Record, frozen=True, kw_only=True):
    """A wheel without its content."""

    format: int = FORMAT
    members: tuple[Row, ...]
    texts: dict[str, bytes]
    """By member name."""


def read_metadata(source: ZipSource) -> WheelMetadata:
    """The members and the small texts of an open wheel. A text that cannot be read is left out."""
    wanted = [member for member in source.members if TEXTS.match(member.name) and member.size <= MAX_TEXT_BYTES]
    if isinstance(source, RemoteZip):
        source.prepare(wanted)
    texts = {member.name: source.read(member, MAX_TEXT_BYTES) for member in wanted}
    return WheelMetadata(
        members=tuple(
            Row(item.name.encode("utf-8", "surrogateescape"), item.mode, item.size, item.problem)
            for item in source.members
        ),
        texts={name: text for name, text in texts.items() if text is not None},
    )


def metadata_facts(file: str, metadata: WheelMetadata, layout: Layout) -> WheelFacts:
    """The facts of a wheel called ``file``, as far as its metadata tells them; its libraries are only named."""
    name = read_name(file)
    members = [
        Member(row.name.decode("utf-8", "surrogateescape"), row.mode, row.size, row.size, 0, 0, 0, row.problem)
        for row in metadata.members
    ]
    archive = {member.name: member for member in members if not member.is_folder}
    info = info_folder(archive, name)
    dist = read_dist(info, metadata.texts.get)
    data = f"{info.removesuffix('.dist-info')}.data"
    places = {key: where for key in archive if (where := place_of(key, data, name.name or dist.name, layout))}
    usable = {places[key]: archive[key] for key in places if not archive[key].problem}
    seen = Seen(members, frozenset(places), frozenset())
    rows = tuple(row._replace(path=places.get(row.path, join(layout.site, row.path))) for row in dist.rows)
    texts = {places[key]: text for key, text in metadata.texts.items() if key in places and is_wanted(places[key])}
    return WheelFacts(
        name=name,
        dist=replace(
            dist,
            folder=join(layout.site, info),
            site=layout.site,
            rows=rows,
            wheel_file=file,
            disorders=disorders_of(name, seen, dist, metadata.texts.get),
        ),
        files={where: fact_of(member) for where, member in usable.items()},
        digests={},
        objects=tuple(SharedObject(where, machine_of(name), (), None) for where in usable if LIBRARY.search(where)),
        exports={},
        texts=texts,
        damaged={},
    )


def machine_of(name: WheelName) -> int:
    """``e_machine`` that the platform tags promise; 0 when they promise none."""
    promises = [promise_of(tag.platform) for tag in sorted(name.tags, key=str)]
    machines = [promise.machine for promise in promises if promise and promise.machine]
    return load_policies().machines.get(machines[0], 0) if machines else 0


class Remembered:
    """Metadata of wheels by sha256 in a folder. A damaged file counts as absent; without a folder nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def find(self, sha256: str) -> WheelMetadata | None:
        """What is remembered of a wheel."""
        if self.folder is None or not sha256.isalnum():
            return None
        try:
            data = (self.folder / sha256).read_bytes()
            if hashlib.sha256(data[32:]).digest() != data[:32]:
                return None
            plain = zstandard.ZstdDecompressor().decompress(data[32:], max_output_size=MAX_FILE_BYTES)
            found = msgspec.msgpack.decode(plain, type=WheelMetadata)
        except (OSError, zstandard.ZstdError, msgspec.DecodeError):
            return None
        return found if found.format == FORMAT else None

    def keep(self, sha256: str, metadata: WheelMetadata) -> None:
        """Remember a wheel. A kill leaves no half file under its name; a lost one is only read again."""
        if self.folder is None or not sha256.isalnum():
            return
        data = zstandard.ZstdCompressor(level=3).compress(msgspec.msgpack.encode(metadata))
        partial = self.folder / f".{sha256}.{os.getpid()}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(hashlib.sha256(data).digest() + data)
            os.replace(partial, self.folder / sha256)
        except OSError:
            with contextlib.suppress(OSError):
                partial.unlink()
