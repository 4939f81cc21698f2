"""The unit cache: results of compiler steps and whole objects, by content, in one folder and perhaps a shared one.

An entry is one file ``KIND/xx/KEY``: a line with a digest of the rest, a JSON line that names its members, and the
members themselves, compressed. It is written once, beside its place, and moved there whole. A reader believes nothing:
an entry that is cut off, damaged or of another format is no entry, and is removed.

The shared folder needs no locks, links or atomic renames: where a rename is refused the entry is written in place, and
the digest tells whoever reads it too early. It never fails a build; what went wrong is in the log.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib

from .log import append

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .config import Config

MAGIC = b"orbit-unit-1 "
"""With the format's number: another format is no entry. To be raised when what is kept of a step, or how texts are
cleaned, changes: the fronts' own hash is no part of a step's key, or each change of theirs would cost core-hours."""
LEVEL = 1
"""zlib's: text shrinks to a tenth of its size in a few milliseconds per megabyte."""
TOUCH_S = 3600.0
"""A hit renews an entry's time (the last use, for whoever tidies up) when that is older."""


class Entry:
    """What is kept of one step or object."""

    __slots__ = ("files", "meta", "size")

    def __init__(self, files: Mapping[str, bytes], meta: Mapping[str, object], size: int) -> None:
        self.files = files
        """Role (``ptx``, ``object``) -> content."""
        self.meta = meta
        self.size = size
        """Bytes of the entry's file."""


def key_of(*parts: bytes | str) -> str:
    """sha256 of parts, each with its length in front: ``("ab", "c")`` and ``("a", "bc")`` differ."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()


def pack(files: Mapping[str, bytes], meta: Mapping[str, object]) -> bytes:
    """The bytes of an entry."""
    head = {"files": [[name, len(data)] for name, data in files.items()], "meta": dict(meta)}
    packer = zlib.compressobj(LEVEL)
    packed = [packer.compress(data) for data in files.values()]
    body = b"".join([json.dumps(head, sort_keys=True).encode(), b"\n", *packed, packer.flush()])
    return MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def unpack(data: bytes) -> Entry | None:
    """The entry of these bytes; None when they are not a whole, undamaged entry of this format."""
    line, _, body = data.partition(b"\n")
    if line != MAGIC + hashlib.sha256(body).hexdigest().encode():
        return None
    text, _, packed = body.partition(b"\n")
    try:
        head = json.loads(text)
        whole = zlib.decompress(packed)
        files, at = {}, 0
        for name, size in head["files"]:
            files[name] = whole[at : at + size]
            at += size
        return Entry(files, head["meta"], len(data)) if at == len(whole) else None
    except (ValueError, KeyError, TypeError, zlib.error):
        return None


class UnitCache:
    """The folder and the shared folder of a build; both may be absent, then nothing is found and nothing kept."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._folder = config["units"]
        self._shared = config["shared"]

    def __bool__(self) -> bool:
        return bool(self._folder or self._shared)

    def get(self, kind: str, key: str) -> Entry | None:
        """The entry, from the shared folder when only that has it. ``kind`` is ``step`` or ``object``."""
        name = os.path.join(kind, key[:2], key)
        if self._folder and (entry := self._read(self._folder, name)):
            return entry
        if self._shared and (entry := self._read(self._shared, name)):
            if self._folder:
                self._write(self._folder, name, pack(entry.files, entry.meta))
            return entry
        return None

    def put(self, kind: str, key: str, files: Mapping[str, bytes], meta: Mapping[str, object]) -> int:
        """Keep a result; the size of its entry. A folder that cannot be written is logged and left alone."""
        name = os.path.join(kind, key[:2], key)
        data = pack(files, meta)
        for folder in (self._folder, self._shared):
            if folder:
                self._write(folder, name, data)
        return len(data)

    def _read(self, folder: str, name: str) -> Entry | None:
        path = os.path.join(folder, name)
        try:
            with open(path, "rb") as file:
                data = file.read()
                modified = os.fstat(file.fileno()).st_mtime
        except FileNotFoundError:
            return None
        except OSError as error:
            self._note(path, error)
            return None
        entry = unpack(data)
        try:
            if entry is None:
                self._note(path, "damaged or cut off: removed")
                os.unlink(path)
            else:
                _touch(path, modified)
        except OSError:
            pass  # somebody else removed it, or may write here and we may not
        return entry

    def _write(self, folder: str, name: str, data: bytes) -> None:
        path = os.path.join(folder, name)
        beside = f"{path}.{os.getpid()}-{os.urandom(6).hex()}.tmp"
        try:
            if os.path.exists(path):
                return
            os.makedirs(os.path.dirname(path), exist_ok=True)
            _write_whole(beside, data)
            try:
                os.rename(beside, path)
            except OSError:
                os.unlink(beside)
                if os.path.exists(path):
                    return
                _write_whole(path, data)
        except FileExistsError:
            return  # another machine wrote it at the same moment
        except OSError as error:
            self._note(path, error)
            _remove(beside)

    def _note(self, path: str, error: object) -> None:
        append(self._config, {"kind": "cache", "path": path, "error": str(error)})


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return


def _touch(path: str, modified: float) -> None:
    import time  # noqa: PLC0415 - built in

    now = time.time()
    if now - modified > TOUCH_S:
        os.utime(path, (now, now))


def _write_whole(path: str, data: bytes) -> None:
    """A new file with this content, on the disk when this returns."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]
        os.fsync(handle)
    finally:
        os.close(handle)
