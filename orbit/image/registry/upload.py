"""One blob from a file into a registry: in chunks, continued from where the registry says it is.

OCI distribution specification 1.1, "Pushing a blob in chunks". When a connection breaks, the upload's own address is
asked for its range and sending goes on from there. An upload that the registry no longer knows is begun anew: docker's
registry (2.8) forgets one whose connection broke in the middle of a chunk.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urljoin

from orbit.core.files import CHUNK_BYTES as PIECE_BYTES
from orbit.errors import CheckFailed, MissingError, OrbitError
from orbit.image.damage import DamagedImage, damaged_blob
from orbit.image.registry.session import Registry
from orbit.image.registry.transfer import Meter
from orbit.image.registry.transport import SET_UP, TIMEOUT_S, Body, Broken, Response

CHUNK_BYTES = 64 << 20
"""Of one request: little to lose, small enough for the proxies in front of registries, large enough to be fast."""
COMMIT_TIMEOUT_S = 600.0
"""A registry may read the whole blob again before it takes it."""
UNTAKEN_MAX = 2
RANGE = re.compile(r"(?:bytes=)?0-([0-9]{1,18})")
WRONG_FIX = "the registry, or something between here and it, changes what is sent: do not trust it"


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A blob that is to be sent."""

    name: str
    digest: str
    size: int
    source: Path | bytes


@dataclass(frozen=True, slots=True)
class _Place:
    """An upload under way: its address, and how many bytes the registry has."""

    url: str
    offset: int


class _Lost(Exception):
    """The registry does not know the upload any more, or does not go on with it."""


class _Content:
    """The bytes of a blob from any offset, and the digest of all that was read up to the furthest."""

    def __init__(self, item: Outgoing) -> None:
        self._item = item
        self._hash = hashlib.sha256()
        self._hashed = 0

    def pieces(self, offset: int, length: int) -> Iterator[bytes]:
        """``length`` bytes from ``offset``. Raises :class:`DamagedImage` when the file has fewer."""
        if isinstance(self._item.source, bytes):
            data = self._item.source[offset : offset + length]
            self._seen(offset, data)
            yield data
            return
        with open(self._item.source, "rb", buffering=0) as file:
            file.seek(offset)
            while length:
                piece = file.read(min(PIECE_BYTES, length))
                if not piece:
                    raise self.damaged()
                self._seen(offset, piece)
                offset, length = offset + len(piece), length - len(piece)
                yield piece

    def _seen(self, offset: int, piece: bytes) -> None:
        if offset <= self._hashed < offset + len(piece):
            self._hash.update(memoryview(piece)[self._hashed - offset :])
            self._hashed = offset + len(piece)

    @property
    def right(self) -> bool:
        """Whether everything was read and is what the digest says."""
        return self._hashed == self._item.size and f"sha256:{self._hash.hexdigest()}" == self._item.digest

    def damaged(self) -> DamagedImage:
        """The file is not the blob it is named after."""
        source = self._item.source
        if isinstance(source, Path):
            return damaged_blob(source, layer=self._item.name)
        return DamagedImage("the layout", self._item.digest)


class Upload:
    """Sends one blob. ``source``: a repository of the same registry that may have it, or nothing."""

    def __init__(self, registry: Registry, item: Outgoing, meter: Meter, *, source: str, chunk_bytes: int) -> None:
        self._registry, self._item, self._meter, self._source = registry, item, meter, source
        self._content = _Content(item)
        self._chunk_bytes = chunk_bytes
        self._best = 0
        """The furthest any upload of this blob came; only what is beyond it is progress."""
        self._failures = 0
        self._untaken = 0

    def run(self) -> str:
        """Have the blob in the registry; ``moved`` or ``mounted``.

        Raises :class:`DamagedImage` when the file is damaged, :class:`CheckFailed` when the registry ends up with
        something else, and what :meth:`Registry.call` raises, :class:`Broken` after too many failures without progress.
        """
        place: _Place | None = None
        while True:
            try:
                place = place or self._begin()
                if place is None:
                    self._meter.at(self._item.digest, self._item.size)
                    return "mounted"
                while place.offset < self._item.size:
                    place = self._send(place)
                self._commit(place)
            except (Broken, _Lost) as failure:
                self._failed(failure)
                if place and has_blob(self._registry, self._item):
                    return "moved"  # the answer to the last request was lost, not the request
                if place and isinstance(failure, Broken):
                    place = self._ask(place)
                    where = f"goes on at byte {place.offset}" if place else "was forgotten by the registry; begun anew"
                    self._registry.progress.step(f"{self._item.name}: the upload {where}")
                else:
                    place = None
            else:
                return "moved"

    def _failed(self, failure: Broken | _Lost) -> None:
        """Count a failure and wait; raise it when there were too many since the last progress."""
        self._failures += 1
        enough = self._failures >= self._registry.patience.tries
        if isinstance(failure, Broken):
            if enough:
                raise failure
            self._registry.pause(self._failures, failure)
        elif enough:
            raise CheckFailed(f"{self._registry.reference}: {self._item.digest}: {failure}", fix=SET_UP)
        else:
            self._registry.progress.step(f"{self._item.name}: {failure}; begun anew")

    def _begin(self) -> _Place | None:
        """A new upload; None when the registry took the blob from another repository instead."""
        query = {"mount": self._item.digest, "from": self._source} if self._source else {}
        scopes = self._registry.scopes("pull,push", source=self._source)
        url = self._registry.url("blobs/uploads/")
        try:
            with self._registry.call(
                "POST", f"{url}?{urlencode(query)}" if query else url, expect=(201, 202), scopes=scopes
            ) as response:
                if response.status == 201:
                    return None
                return self._place(response, 0)
        except Broken:
            raise
        except OrbitError:
            if not self._source:
                raise
            # it may be gone there, or not ours to read
            self._source = ""
            return self._begin()

    def _place(self, response: Response, offset: int) -> _Place:
        where = response.headers.get("Location", "")
        if not where:
            raise CheckFailed(f"{self._registry.reference}: an upload without an address", fix=SET_UP)
        least = response.headers.get("OCI-Chunk-Min-Length", "")
        if re.fullmatch(r"[0-9]{1,15}", least):
            self._chunk_bytes = max(self._chunk_bytes, int(least))
        return _Place(urljoin(response.url, where), offset)

    def _send(self, place: _Place) -> _Place:
        """One chunk."""
        start = place.offset
        length = min(self._chunk_bytes, self._item.size - start)
        headers = {"Content-Type": "application/octet-stream", "Content-Range": f"{start}-{start + length - 1}"}
        body = Body(length, lambda: self._told(start, length))
        with self._call(
            "PATCH", place.url, (201, 202, 204, 400, 404, 405, 413, 416), headers=headers, body=body
        ) as response:
            if response.status >= 400:
                self._refused(response.status, start)
            end = _end(response)
            if end == 0 and start + length == 1:
                end = 1  # of one byte "0-0" is the right range
            if end is not None and end > start + length:
                raise _Lost(f"the registry says it has {end} bytes of {start + length} sent")
            place = self._place(response, start + length if end is None else end)
        if place.offset <= start:
            raise _Lost("the registry took nothing of a chunk")
        self._reached(place.offset)
        return place

    def _reached(self, offset: int) -> None:
        if offset > self._best:
            self._best, self._failures = offset, 0
        self._meter.at(self._item.digest, offset)

    def _refused(self, status: int, start: int) -> None:
        if status == 413:
            if self._chunk_bytes > PIECE_BYTES:
                self._chunk_bytes //= 4
            raise _Lost("the registry takes smaller requests only")
        if start and status in (400, 405, 416):
            # some registries take a blob in one request only
            self._chunk_bytes = self._item.size
        raise _Lost(f"the registry does not go on with the upload ({status})")

    def _told(self, start: int, length: int) -> Iterator[bytes]:
        position = start
        for piece in self._content.pieces(start, length):
            self._registry.check_stop()
            yield piece
            position += len(piece)
            self._meter.at(self._item.digest, position, moved=len(piece))

    def _commit(self, place: _Place) -> None:
        """Everything is there: give it its digest."""
        if self._item.size == 0:
            list(self._content.pieces(0, 0))
        if not self._content.right:
            with self._call("DELETE", place.url, range(200, 600)):
                pass
            raise self._content.damaged()
        mark = "&" if "?" in place.url else "?"
        url = f"{place.url}{mark}{urlencode({'digest': self._item.digest})}"
        with self._call("PUT", url, (201, 204, 400, 404, 416)) as response:
            if response.status >= 400:
                self._untaken += 1
                if self._untaken < UNTAKEN_MAX:
                    raise _Lost(f"the registry does not take it as {self._item.digest[:19]} ({response.status})")
                raise CheckFailed(
                    f"{self._registry.reference}: {self._item.digest} was sent {UNTAKEN_MAX} times, and never arrived "
                    "as what it is; nothing was tagged",
                    fix=WRONG_FIX,
                )
            found = response.headers.get("Docker-Content-Digest", self._item.digest)
        if found != self._item.digest:
            raise CheckFailed(
                f"{self._registry.reference}: {self._item.digest} arrived as {found}; nothing was tagged", fix=WRONG_FIX
            )

    def _ask(self, place: _Place) -> _Place | None:
        """How far an upload is; None when the registry does not know it any more."""
        try:
            with self._registry.call(
                "GET", place.url, expect=(204, 200), scopes=self._registry.scopes("pull,push")
            ) as response:
                end = _end(response)
                where = response.headers.get("Location") or place.url
                # what nobody sent cannot be ours
                if end is None or end > self._item.size:
                    return None
                self._reached(end)
                return _Place(urljoin(response.url, where), end)
        except Broken:
            raise
        except (MissingError, CheckFailed):
            return None

    def _call(
        self,
        method: str,
        url: str,
        expect: Sequence[int],
        *,
        headers: dict[str, str] | None = None,
        body: Body | None = None,
    ) -> Response:
        """A request that is not to be repeated before the registry was asked how far it came."""
        return self._registry.call(
            method,
            url,
            expect=expect,
            scopes=self._registry.scopes("pull,push"),
            headers=headers,
            body=body,
            once=True,
            timeout_s=COMMIT_TIMEOUT_S if method == "PUT" else TIMEOUT_S,
        )


def _end(response: Response) -> int | None:
    """How many bytes an upload has by its ``Range: 0-END`` (END is in it; ``0-0`` is also how nothing is said)."""
    told = RANGE.fullmatch(response.headers.get("Range", "").strip())
    if told is None:
        return None
    return int(told[1]) + 1 if int(told[1]) else 0


def has_blob(registry: Registry, item: Outgoing) -> bool:
    """Whether the registry's repository has a blob. Raises :class:`CheckFailed` when it has it with another size."""
    url = registry.url(f"blobs/{item.digest}")
    with registry.call("HEAD", url, expect=(200, 404), scopes=registry.scopes("pull,push")) as response:
        found, size = response.status == 200, response.length
    if found and size not in (None, item.size):
        raise CheckFailed(
            f"{registry.reference}: the registry has {item.digest} with {size} bytes instead of {item.size}",
            fix="its storage is damaged: tell its keepers",
        )
    return found
