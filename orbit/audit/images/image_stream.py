"""An image that goes by once as a tar stream: ``docker save`` of an engine, or a compressed archive.

Layers come before the documents that name and order them, so every file that can be a layer is read as one when it
passes, and small files that can be documents are kept. Nothing is written.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from orbit.audit.files.scan import MAX_READINGS
from orbit.audit.images.decompress import Hashing, codec_of, decompressed
from orbit.audit.images.image_source import ImageRef, LayerRef, follow, link_target, read_image_ref
from orbit.audit.images.layers import LayerFacts, Missing, read_again, read_layer
from orbit.audit.images.tar_stream import BLOCK, Member, TarStream
from orbit.errors import InputError, OrbitError
from orbit.image.damage import DamagedImage
from orbit.image.oci import DOCUMENT_BYTES_MAX

MAX_DOCUMENTS_BYTES = 64 << 20
DOCUMENT_STARTS = (b"{", b"[")

type Open = Callable[[], Iterator[bytes]]
"""Begins the stream from its start."""


@dataclass(slots=True)
class Passed:
    """A file that was read as a layer."""

    facts: LayerFacts | None = None
    missing: Missing = field(default_factory=Missing)
    digest: str = ""
    """Of the file, sha256 in hexadecimal."""
    diff_id: str = ""
    """Of the tar stream in it."""
    error: OrbitError | None = None


class StreamArchive:
    """What was kept of an archive that went by."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.documents: dict[str, bytes] = {}
        self.layers: dict[str, Passed] = {}
        self.links: dict[str, str] = {}

    def document(self, name: str) -> bytes | None:
        """See :class:`orbit.audit.images.image_source.Archive`."""
        found = follow(name, self.links)
        return self.documents.get(found) if found is not None else None

    def layer(self, ref: LayerRef) -> Passed:
        """The layer that was read under that name. Raises :class:`DamagedImage` when it is missing or damaged, and
        :class:`InputError` when it cannot be read."""
        found = follow(ref.name, self.links)
        passed = self.layers.get(found) if found is not None else None
        if passed is None:
            raise DamagedImage(self.label, ref.digest or ref.diff_id, "it is missing", layer=ref.title or ref.name)
        if passed.error is not None:
            raise passed.error
        wrong = f"sha256:{passed.digest}" != ref.digest if ref.digest else False
        if wrong or f"sha256:{passed.diff_id}" != ref.diff_id:
            raise DamagedImage(self.label, ref.digest or ref.diff_id, layer=ref.title or ref.name)
        return passed


def read_stream(open_: Open, label: str, reference: str, architecture: str) -> tuple[ImageRef, list[LayerFacts], str]:
    """(the image, the facts of its layers from the lowest up, a remark on what was chosen).

    Raises :class:`InputError` for what is no image or damaged, and what ``open_`` raises.
    """
    archive = StreamArchive(label)
    _pass(archive, open_(), again=False)
    image, remark = read_image_ref(archive, reference, architecture)
    for _ in range(MAX_READINGS):
        if not any(archive.layer(ref).missing for ref in image.layers):
            break
        _pass(archive, open_(), again=True)
    return image, [facts for ref in image.layers if (facts := archive.layer(ref).facts) is not None], remark


def _pass(archive: StreamArchive, pieces: Iterable[bytes], *, again: bool) -> None:
    """Let the archive go by; with ``again`` only for what layers miss."""
    stream = TarStream(decompressed(pieces, archive.label), archive.label)
    documents = 0
    for member in stream:
        if not stat.S_ISREG(member.mode):
            if member.target:
                archive.links[member.path] = link_target(member.path, member.target, hard=not member.mode)
        elif again:
            if (passed := archive.layers.get(member.path)) is not None and passed.missing and passed.facts is not None:
                chunks = decompressed(map(bytes, stream.content()), member.path)
                passed.facts, passed.missing = read_again(chunks, member.path, passed.facts, passed.missing)
        else:
            documents += _take(archive, stream, member)
            if documents > MAX_DOCUMENTS_BYTES:
                raise InputError(f"{archive.label}: more than {MAX_DOCUMENTS_BYTES} bytes of documents", fix="no image")
    stream.drain()


def _take(archive: StreamArchive, stream: TarStream, member: Member) -> int:
    """Keep a file as a document or read it as a layer; the bytes kept."""
    content = map(bytes, stream.content())
    head = b""
    for piece in content:
        head += piece
        if len(head) >= BLOCK:
            break
    if head[:1] in DOCUMENT_STARTS and member.size <= DOCUMENT_BYTES_MAX:
        data = archive.documents[member.path] = b"".join([head, *content])
        return len(data)
    if _may_be_layer(head):
        archive.layers[member.path] = _layer([head], content, member.path)
    return 0


def _may_be_layer(head: bytes) -> bool:
    try:
        plain = codec_of(head) == "none"
    except InputError:  # refused as a layer when it is one
        return True
    return not plain or (len(head) >= BLOCK and (head[257:262] == b"ustar" or not any(head[:BLOCK])))


def _layer(head: list[bytes], rest: Iterator[bytes], label: str) -> Passed:
    def whole() -> Iterator[bytes]:
        yield from head
        yield from rest

    try:
        packed = Hashing(whole())
        plain = codec_of(head[0]) == "none"
        unpacked = Hashing(decompressed(packed, label)) if not plain else packed
        facts, missing = read_layer(unpacked, label)
        digest, diff_id = packed.hexdigest(), unpacked.hexdigest()
        return Passed(facts, missing, digest, diff_id)
    except OrbitError as error:
        return Passed(error=error)
