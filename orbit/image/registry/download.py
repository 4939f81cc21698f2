"""One blob from a registry into a file: checked while it streams, continued where a connection broke."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from types import TracebackType

from orbit.core.files import CHUNK_BYTES, naming
from orbit.errors import CheckFailed
from orbit.image.oci import Descriptor
from orbit.image.registry.documents import LIE_FIX
from orbit.image.registry.session import Registry
from orbit.image.registry.transfer import Meter
from orbit.image.registry.transport import NETWORK_FIX, Broken, Response

PARTIAL = ".partial"
LIES_MAX = 2
"""Whole transfers with a wrong digest, of which all but the last were put together from several connections."""
CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-[0-9]{1,18}/(?:[0-9]{1,18}|\*)")


class PartialBlob:
    """The file a blob grows in, with the digest of what is in it. Use it in a ``with`` block."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.have = 0
        self.furthest = 0
        """The most there ever was: what counts as progress after beginning anew."""
        self.pieced = False
        """Whether the bytes came over more than one connection."""
        self._hash = hashlib.sha256()
        self._file = open(path, "r+b" if path.exists() else "w+b")  # noqa: SIM115 - closed by __exit__
        while piece := self._file.read(CHUNK_BYTES):
            self._hash.update(piece)
            self.have += len(piece)
        if self.have > size:
            self.restart()
        self.furthest = self.have
        self.pieced = self.have > 0

    def write(self, data: memoryview) -> None:
        """Append."""
        self._hash.update(data)
        with naming(self.path):
            self._file.write(data)
        self.have += len(data)
        self.furthest = max(self.furthest, self.have)

    def restart(self) -> None:
        """Forget everything."""
        self._file.seek(0)
        self._file.truncate()
        self._hash = hashlib.sha256()
        self.have, self.pieced = 0, False

    @property
    def hex(self) -> str:
        """sha256 of what is there."""
        return self._hash.hexdigest()

    def keep(self, final: Path) -> None:
        """It is whole: give it its name."""
        self._file.flush()
        os.fsync(self._file.fileno())
        os.chmod(self.path, 0o444)
        os.rename(self.path, final)

    def __enter__(self) -> PartialBlob:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def fetch_blob(registry: Registry, item: Descriptor, folder: Path, meter: Meter) -> Path:
    """Put a blob at ``folder/<hex>``. What came so far is kept in ``<hex>.partial`` and continued, also by a later run.

    Raises :class:`CheckFailed` when the content is not what the digest says (nothing is kept then), and what
    :meth:`Registry.call` raises.
    """
    final = folder / item.hex
    with PartialBlob(folder / f"{item.hex}{PARTIAL}", item.size) as partial:
        failures = lies = 0
        while True:
            before = partial.furthest
            try:
                _more(registry, item, partial, meter)
            except Broken as failure:
                partial.pieced = partial.have > 0
                failures = 1 if partial.furthest > before else failures + 1
                if failures >= registry.patience.tries:
                    raise
                registry.pause(failures, failure)
                continue
            if partial.hex == item.hex:
                partial.keep(final)
                return final
            lies += 1
            if lies == LIES_MAX or not partial.pieced:
                partial.path.unlink()
                raise CheckFailed(f"{registry.reference}: what came for {item.digest} is not that", fix=LIE_FIX)
            partial.restart()


def _more(registry: Registry, item: Descriptor, partial: PartialBlob, meter: Meter) -> None:
    """One connection's worth of a blob."""
    meter.at(item.digest, partial.have)
    if partial.have == item.size:
        return
    headers = {"Range": f"bytes={partial.have}-"} if partial.have else {}
    url = registry.url(f"blobs/{item.digest}")
    with registry.call("GET", url, expect=(200, 206, 416), scopes=registry.scopes(), headers=headers) as response:
        _place(response, partial, item)
        buffer = memoryview(bytearray(min(CHUNK_BYTES, item.size)))
        while left := item.size - partial.have:
            count = response.readinto(buffer[: min(left, len(buffer))])
            if not count:
                raise Broken(f"{item.digest}: the connection ended after {partial.have} bytes", fix=NETWORK_FIX)
            partial.write(buffer[:count])
            meter.at(item.digest, partial.have, moved=count)
            registry.check_stop()


def _place(response: Response, partial: PartialBlob, item: Descriptor) -> None:
    """Make sure that what the answer brings belongs after what is there."""
    if response.status == 416:
        partial.restart()
        raise Broken(f"{item.digest}: the registry does not have the rest", fix=LIE_FIX)
    if response.status == 206:
        told = CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if told is None or int(told[1]) != partial.have:
            partial.restart()
            raise Broken(f"{item.digest}: the registry answers with another range", fix=LIE_FIX)
    elif partial.have:
        partial.restart()  # it gives the whole only
    if response.length is not None and response.length > item.size - partial.have:
        partial.path.unlink()
        raise CheckFailed(f"{item.digest}: has more than the {item.size} bytes of its manifest", fix=LIE_FIX)
