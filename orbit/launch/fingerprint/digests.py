"""sha256 of files without reading gigabytes each time.

Three ways, in this order. What RECORD states, for a file of an Orbit environment that has the size and the time it was
sealed with: any later write gives it another time (:mod:`orbit.env.tree`). What an earlier run read, for a file with
the same device, number, size and both times. Else the file is read, several at once.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from orbit.core.files import read_file, sha256_file, write_atomic
from orbit.core.records import MAX_BYTES, Record, compact_json, load_json
from orbit.env.record import RECORD_PATH
from orbit.env.tree import EPOCH_NS
from orbit.errors import OrbitError
from orbit.image.tar import EPOCH_S

SEALED_NS = (EPOCH_NS, EPOCH_S * 10**9)
"""Modification times of files in an environment on disk, and in the layers of an image."""
KEPT = 8192
"""Digests kept in the file."""
CACHE = "fingerprint/digests.json"
"""Below the state folder."""


class Known(Record, frozen=True, kw_only=True):
    """What earlier runs read: state of a file -> sha256."""

    digests: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Digest:
    """sha256 of a file, and how it is known."""

    sha256: str
    """Hex; empty when the file cannot be read."""
    stated: bool = False
    """From RECORD; the file itself was not read."""


def digests(paths: Iterable[str], prefix: Path, *, state: str, read: bool = False) -> dict[str, Digest]:
    """sha256 of each file. ``prefix``: the environment whose RECORD files count (real path); ``state``: the state
    folder, where what was read is kept, if that folder is ours; empty: nowhere. ``read``: every file is read, whatever
    is known of it.
    """
    known = {} if read else _load(state)
    stated = {} if read or not (prefix / RECORD_PATH).is_file() else stated_digests(prefix)
    found: dict[str, Digest] = {}
    keys: dict[str, str] = {}
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            found[path] = Digest("")
            continue
        row = stated.get(path)
        if row is not None and row[1] == status.st_size and status.st_mtime_ns in SEALED_NS:
            found[path] = Digest(row[0], stated=True)
            continue
        keys[path] = _key(status)
        if sha256 := known.get(keys[path]):
            found[path] = Digest(sha256)
    unread = [path for path in keys if path not in found]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for path, sha256 in zip(unread, pool.map(_read, unread), strict=True):
            found[path] = Digest(sha256)
    if unread:
        now = {keys[path]: found[path].sha256 for path in keys if found[path].sha256}
        _keep(state, {**known, **now})
    return found


def stated_digests(prefix: Path) -> dict[str, tuple[str, int]]:
    """(sha256, size) by absolute path, of every shared library that a RECORD of the environment names."""
    rows: dict[str, tuple[str, int]] = {}
    for record in prefix.glob("lib/python*/site-packages/*.dist-info/RECORD"):
        site = str(record.parent.parent)
        with contextlib.suppress(OSError, OrbitError):
            for line in read_file(record, MAX_BYTES).decode(errors="surrogateescape").splitlines():
                path, _, rest = line.rpartition(",sha256=")
                digest, _, size = rest.partition(",")
                if ".so" not in path or path.startswith('"') or not size.isdigit():
                    continue
                with contextlib.suppress(binascii.Error, ValueError):
                    raw = base64.urlsafe_b64decode(digest + "=" * (-len(digest) % 4))
                    rows[os.path.normpath(f"{site}/{path}")] = raw.hex(), int(size)
    return rows


def _read(path: str) -> str:
    try:
        return sha256_file(Path(path))
    except OSError:
        return ""


def _key(status: os.stat_result) -> str:
    """Changes with every write: nobody can set the second time (st_ctime) back."""
    return f"{status.st_dev}:{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}"


def _file(state: str) -> Path | None:
    """Where digests are kept; None when the folder is not ours alone, or there is none."""
    if not state:
        return None
    try:
        status = os.lstat(state)
    except OSError:
        return None
    ours = status.st_uid == os.geteuid() and not status.st_mode & 0o022 and os.path.isdir(state)
    return Path(state, CACHE) if ours and not os.path.islink(state) else None


def _load(state: str) -> Mapping[str, str]:
    file = _file(state)
    if file is None or not file.is_file():
        return {}
    try:
        return load_json(file, Known).digests
    except OrbitError:
        return {}


def _keep(state: str, digests: Mapping[str, str]) -> None:
    file = _file(state)
    if file is not None:
        kept = dict(list(digests.items())[-KEPT:])
        with contextlib.suppress(OSError):
            write_atomic(file, compact_json(Known(digests=kept)), mode=0o600)
