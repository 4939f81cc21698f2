"""Results shared between machines: a folder, on a network file system or an object store mounted as one.

``$ORBIT_SHARED`` names it. One file per result (``<kind>/<first two digits of the key>/<key>``): a line of JSON with
size and sha256, then a tar of the result's files. Nothing else is asked of the file system: no locks, no hard links, no
renaming over a file, no empty folders. A file is written once under another name and renamed; where renaming is not
allowed it is written in place, and who reads half of it finds the digest wrong and takes it for absent.

Who may write there decides what everybody installs: the key says what a result was made *from*, and only trust says
that it was. Share it among machines that build for each other, read-only for all others.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from orbit.core.files import remove_tree
from orbit.core.paths import folder_named
from orbit.core.records import Record

SCHEMA = 1
HEADER_BYTES = 4096
"""The first line is shorter than this."""
CHUNK = 1 << 20
SEEN_NAME = ".orbit.seen.json"
"""What a store notes about its own files when it hashes them: true on this machine only, and never sent."""


class Header(Record, frozen=True, kw_only=True):
    """First line of a shared result."""

    schema: int
    kind: str
    key: str
    size: int
    """Bytes that follow the line."""
    sha256: str
    """Of these bytes."""


class Shared:
    """A folder of results. Reading and writing never fail a build: what went wrong comes back as a sentence."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, kind: str, key: str) -> Path:
        """Where the result is or would be."""
        return self.root / kind / key[:2] / key

    def fetch(self, kind: str, key: str, folder: Path) -> str:
        """Unpack a result into the empty ``folder``; empty when it is there, else why not and ``folder`` is empty."""
        try:
            with open(self.path(kind, key), "rb") as file:
                problem = _unpack(file, kind, key, folder)
        except FileNotFoundError:
            return "absent"
        except (OSError, ValueError, tarfile.TarError, msgspec.DecodeError) as error:
            problem = f"cannot be read: {error}"
        if problem:
            remove_tree(folder)
            folder.mkdir()
        return problem

    def publish(self, kind: str, key: str, folder: Path, scratch: Path) -> str:
        """Put the flat ``folder`` there unless it is; empty when it is there now, else why not.

        A file that is not whole (damaged, or cut off by a machine that died) is replaced: it would be in everybody's
        way for ever. ``scratch`` is a local folder for the packed file: its digest must be known before the first byte
        is sent.
        """
        final = self.path(kind, key)
        if _is_whole(final, kind, key):
            return ""
        packed = scratch / f"{key}.tar"
        try:
            scratch.mkdir(parents=True, exist_ok=True)
            header = Header(schema=SCHEMA, kind=kind, key=key, size=0, sha256="")
            with _packed(folder, packed) as digest:
                header = msgspec.structs.replace(header, size=packed.stat().st_size, sha256=digest)
                final.parent.mkdir(parents=True, exist_ok=True)
                _write(final, msgspec.json.encode(header) + b"\n", packed)
        except OSError as error:
            return f"cannot be written: {error}"
        return ""


@contextlib.contextmanager
def _packed(folder: Path, target: Path) -> Iterator[str]:
    """A tar of ``folder`` at ``target`` while the block runs; gives its sha256. Names sorted, no owner, no time."""
    try:
        with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(folder.iterdir()):
                if path.name == SEEN_NAME:
                    continue
                if not path.is_file() or path.is_symlink():
                    raise OSError(f"{path.name} is not a plain file")
                member = tarfile.TarInfo(path.name)
                member.size = path.stat().st_size
                member.mode = 0o644
                with open(path, "rb") as file:
                    tar.addfile(member, file)
        with open(target, "rb") as file:
            yield hashlib.file_digest(file, "sha256").hexdigest()
    finally:
        target.unlink(missing_ok=True)


def _write(final: Path, line: bytes, packed: Path) -> None:
    beside = final.with_name(f".{final.name}.{os.uname().nodename}.{os.getpid()}")
    try:
        with open(beside, "xb") as file:
            _copy(line, packed, file)
        os.rename(beside, final)
    except OSError:
        # mounts of object stores cannot rename: write in place, the digest tells readers when it is whole
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        with open(final, "wb") as file:
            _copy(line, packed, file)


def _copy(line: bytes, packed: Path, file: IO[bytes]) -> None:
    file.write(line)
    with open(packed, "rb") as source:
        shutil.copyfileobj(source, file, CHUNK)
    file.flush()
    os.fsync(file.fileno())


def _open(file: IO[bytes], kind: str, key: str) -> tuple[Header, str]:
    """The first line, and why the file is not the one that is looked for (empty: it is)."""
    header = msgspec.json.decode(file.readline(HEADER_BYTES), type=Header)
    if (header.schema, header.kind, header.key) != (SCHEMA, kind, key) or header.size < 0:
        return header, f"says it is {header.kind} {header.key[:12]}, schema {header.schema}, {header.size} bytes"
    return header, ""


def _is_whole(path: Path, kind: str, key: str) -> bool:
    try:
        with open(path, "rb") as file:
            header, problem = _open(file, kind, key)
            checked = _Checked(file, header.size)
            checked.drain()
    except (OSError, ValueError, msgspec.DecodeError):
        return False
    return not problem and not checked.left and checked.digest.hexdigest() == header.sha256


def _unpack(file: IO[bytes], kind: str, key: str, folder: Path) -> str:
    header, problem = _open(file, kind, key)
    if problem:
        return problem
    checked = _Checked(file, header.size)
    with tarfile.open(fileobj=io.BufferedReader(checked, CHUNK), mode="r|") as tar:
        for member in tar:
            if not member.isreg() or "/" in member.name or member.name in ("", ".", ".."):
                return f"holds {member.name!r}, which is no plain file"
            source = tar.extractfile(member)
            assert source is not None
            with open(folder / member.name, "xb") as target:
                shutil.copyfileobj(source, target, CHUNK)
    checked.drain()
    if checked.digest.hexdigest() != header.sha256 or checked.left:
        return "is not whole: its sha256 is not the one it says"
    return ""


class _Checked(io.RawIOBase):
    """Reads ``size`` bytes of a file and no more, hashing them."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self.left = size
        self.digest = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._file.read(min(len(buffer), self.left))
        self.left -= len(data)
        self.digest.update(data)
        buffer[: len(data)] = data
        return len(data)

    def drain(self) -> None:
        """Hash what nobody asked for (the padding behind the archive's end)."""
        while self.left > 0 and (data := self._file.read(min(CHUNK, self.left))):
            self.left -= len(data)
            self.digest.update(data)


def shared_root() -> Path | None:
    """``$ORBIT_SHARED``, or None. Raises :class:`InputError` when it names what is no folder and cannot become one."""
    value = os.environ.get("ORBIT_SHARED")
    return folder_named("ORBIT_SHARED", value) if value else None
