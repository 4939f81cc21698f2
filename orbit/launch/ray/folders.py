"""The folder of one job on one node: private, short enough for sockets, and removed by whoever finds its owner dead."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from orbit.core.amounts import format_bytes
from orbit.core.files import from_os_error, remove_tree, write_atomic
from orbit.core.paths import SOCKET_PATH_BYTES
from orbit.core.records import Record, compact_json
from orbit.errors import RefusedError

RAY_BYTES = 64
"""What Ray 2.55 appends to its folder: ``/session_2026-12-01_23-59-59_999999_4194304/sockets/plasma_store``."""
MOST_BYTES = SOCKET_PATH_BYTES - RAY_BYTES
PREFIX = "o-"
OWNER_FILE = "owner.json"
LEAST_FREE = 256 << 20
"""Ray's logs and a spilled object or two; a job's own need is what ``--scratch-gib`` demands."""


class Owner(Record, frozen=True, kw_only=True):
    """Whose folder it is: a process id is used again, one together with its start and the machine's is not."""

    pid: int
    started: int
    """Of the process, in clock ticks since the machine's start (proc(5), stat, field 22)."""
    boot: str
    pid_space: int
    """Inode of the namespace in which ``pid`` means something."""


def myself() -> Owner:
    """This process."""
    return Owner(
        pid=os.getpid(),
        started=_started(os.getpid()) or 0,
        boot=_boot(),
        pid_space=os.stat("/proc/self/ns/pid").st_ino,
    )


def is_dead(owner: Owner) -> bool:
    """Whether ``owner`` is gone for certain. Not certain: another namespace of process ids, as in another container."""
    here = myself()
    if owner.boot != here.boot:
        return True
    return owner.pid_space == here.pid_space and _started(owner.pid) != owner.started


@dataclass(frozen=True, slots=True)
class Folder:
    """A job's folder on this node."""

    real: Path
    """Where it lies."""
    short: Path
    """The same by a name that is short enough for sockets: a link to it, or itself."""


@contextlib.contextmanager
def private_folder(env: Mapping[str, str]) -> Iterator[Folder]:
    """A new folder of mode 0700 for this job alone, removed with what is in it.

    Below the first of RAY_TMPDIR (the image's entry point finds it), ORBIT_STATE and TMPDIR that can be used, else
    below ``/tmp/orbit-<uid>``, where also the link lies when the name has more than :data:`MOST_BYTES` bytes. Raises
    :class:`RefusedError` where no place will do, with what each lacks.
    """
    folder = _make(env)
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):
            remove_tree(folder.real)
        with contextlib.suppress(OSError):
            remove_tree(folder.short)


def places(env: Mapping[str, str]) -> list[Path]:
    """Where a folder is looked for, in this order."""
    named = [env.get(name, "") for name in ("RAY_TMPDIR", "ORBIT_STATE", "TMPDIR")]
    absolute = [Path(place) for place in named if place.startswith("/")]
    return list(dict.fromkeys([*absolute, own_tmp()]))


def free_bytes(folder: Path) -> int:
    """Room below ``folder`` for who is not root."""
    return shutil.disk_usage(folder).free


def remove_dead(place: Path) -> list[Path]:
    """Remove what jobs have left in ``place`` whose program died without being able to; gives the folders."""
    removed = []
    for folder in sorted(place.glob(f"{PREFIX}*")):
        with contextlib.suppress(OSError, ValueError, msgspec.DecodeError):
            if folder.lstat().st_uid == os.geteuid() and _is_dead(folder):
                remove_tree(folder)
                removed.append(folder)
    return removed


def _is_dead(folder: Path) -> bool:
    if folder.is_symlink() and not folder.exists():
        return True
    return is_dead(msgspec.json.decode((folder / OWNER_FILE).read_bytes(), type=Owner))


def _make(env: Mapping[str, str]) -> Folder:
    problems = []
    for place in places(env):
        real = place / f"{PREFIX}{secrets.token_hex(3)}"
        try:
            problem = _claim(place, real)
            short = problem or _shorten(real)
        except OSError as error:
            short = from_os_error(error, f"making {real}").what
        if isinstance(short, Path):
            return Folder(real, short)
        with contextlib.suppress(OSError):
            remove_tree(real)
        problems.append(f"{place}: {short}")
    raise RefusedError(
        f"no place for the files of this job (a socket's path holds {SOCKET_PATH_BYTES} bytes): " + "; ".join(problems),
        fix="name a short folder on a disk of the node in ORBIT_STATE, or give the container a larger /tmp",
    )


def _shorten(real: Path) -> Path | str:
    """A name of ``real`` that is short enough, or why there is none."""
    length = len(os.fsencode(real))
    if length <= MOST_BYTES:
        return real
    place = own_tmp()
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    if place.is_symlink() or place.stat().st_uid != os.geteuid():
        return f"{real} has {length} bytes, Ray needs at most {MOST_BYTES}, and {place} for a link is somebody else's"
    remove_dead(place)
    link = place / real.name
    link.symlink_to(real)
    return link


def own_tmp() -> Path:
    """``/tmp/orbit-<uid>``."""
    return Path(f"/tmp/orbit-{os.geteuid()}")  # noqa: S108 - made private, and refused when it is not ours


def _claim(place: Path, folder: Path) -> str:
    """Make ``folder``; empty, or why it cannot be used."""
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    facts = place.stat()
    if place == own_tmp() and (place.is_symlink() or facts.st_uid != os.geteuid()):
        return f"is a link or belongs to user {facts.st_uid}"
    if facts.st_mode & stat.S_IWOTH and not facts.st_mode & stat.S_ISVTX:
        return "everybody may rename what is in it"
    remove_dead(place)
    if free_bytes(place) < LEAST_FREE:
        return f"{format_bytes(free_bytes(place))} are free, and {format_bytes(LEAST_FREE)} are needed"
    folder.mkdir(mode=0o700)
    write_atomic(folder / OWNER_FILE, compact_json(myself()), mode=0o600)
    return ""


def _started(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError):
        return None


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
