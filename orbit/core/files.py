"""Files that survive a kill: write beside, fsync, rename; hashes; free room; one lock per piece of work."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import functools
import hashlib
import os
import re
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from orbit.core.amounts import format_bytes
from orbit.errors import InputError, MissingError, OrbitError, RefusedError

CHUNK_BYTES = 1 << 20
REMOVE_PATIENCE_S = 10.0
REGULAR = "give a regular file that can be read"
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
NO_TEMPORARY = "No usable temporary directory"
"""What :mod:`tempfile` says when it can write to none of the folders it knows, whatever the reason."""


# By name: the modules that define some of them (socket, urllib, ssl) are slow to import and need not be there.
NETWORK_ERRORS = frozenset({"ConnectionError", "TimeoutError", "gaierror", "URLError", "SSLError"})


def write_atomic(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Replace ``path`` by ``data``; after a crash the file is the old one or the new one, whole.

    Raises OSError as it comes; IsADirectoryError with ``path``, not a neighbour's name, when a folder is in its place.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_native_id()}.partial")
    try:
        with naming(path), open(partial, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(partial, mode)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """That no room is left is said of ``path`` where the error names no file: writing to an open one names none."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in FULL:
            error.filename = str(path)
        raise


def open_regular(path: Path | str) -> IO[bytes]:
    """An open regular file. Never waits, as opening a FIFO would.

    Raises OSError as it comes, and :class:`InputError` for anything else in the file's place.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb", buffering=0)
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise InputError(f"{path}: not a regular file", fix=REGULAR)


def read_file(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most ``limit`` bytes. Never waits, whatever is in the file's place.

    Raises FileNotFoundError as it comes, and :class:`InputError` for everything else that is no such file.
    """
    pieces: list[bytes] = []
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            while size <= limit and (piece := file.read(CHUNK_BYTES)):
                pieces.append(piece)
                size = max(size, file.tell())
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}", fix=REGULAR) from None
    if size > limit:
        raise InputError(f"{path}: more than {limit >> 20} MB", fix="this is no file of that kind")
    return b"".join(pieces)


def sync_folder(folder: Path) -> None:
    """Make a rename inside ``folder`` durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_folder(new: Path, final: Path) -> None:
    """Put the folder ``new`` in the place of ``final`` in one step; the old folder, if any, is deleted afterwards.

    Both lie on one file system. A reader, or the next run after a kill, finds the old folder or the new one, whole.
    Where the file system cannot exchange two names (renameat2, Linux 3.15), the old one is moved aside first.
    """
    if not final.exists():
        os.rename(new, final)
    elif _exchange(new, final):
        remove_tree(new)
    else:
        aside = new.with_name(f"{new.name}.old")
        os.rename(final, aside)
        os.rename(new, final)
        remove_tree(aside)
    sync_folder(final.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names (RENAME_EXCHANGE = 2); False where that is not supported."""
    libc = ctypes.CDLL(None, use_errno=True)
    at_cwd, flag = -100, 2
    done: int = libc.renameat2(at_cwd, os.fsencode(one), at_cwd, os.fsencode(other), flag)
    if done == 0:
        return True
    if ctypes.get_errno() in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(other))


def link_or_copy(source: Path, target: Path) -> None:
    """Hard link, or a copy where links cannot reach (another file system, too many links)."""
    if target.exists():
        return
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EMLINK, errno.EPERM, errno.ENOTSUP):
            raise
        try:
            shutil.copyfile(source, target)
            os.chmod(target, 0o444)
        except BaseException:
            target.unlink(missing_ok=True)
            raise


def sha256_file(path: Path) -> str:
    """sha256 hex of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_hash(root: Path, *, skip: frozenset[str] = frozenset({"__pycache__"})) -> str:
    """sha256 over (relative path, kind, executable bit, content) of a tree, names in ``skip`` left out.

    Times, owners and the exact mode do not enter: two checkouts of one commit have one hash.
    """
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if not skip.isdisjoint(relative.parts):
            continue
        if path.is_symlink():
            digest.update(os.fsencode(f"l {relative}\0{os.readlink(path)}\0"))
        elif path.is_file():
            executable = "x" if path.stat().st_mode & 0o100 else "-"
            digest.update(os.fsencode(f"f{executable} {relative}\0{sha256_file(path)}\0"))
    return digest.hexdigest()


def require_free(
    folder: Path,
    need_bytes: int,
    purpose: str,
    *,
    elsewhere: str = "choose a folder on a larger disk (ORBIT_CACHE, --out, --dist)",
) -> None:
    """Refuse early when ``folder``'s file system has less than ``need_bytes`` free; ``elsewhere``: what else to do."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < need_bytes:
        raise RefusedError(
            f"{folder}: {purpose} needs {format_bytes(need_bytes)} of free disk, {format_bytes(free)} are left",
            fix=f"free some room there, or {elsewhere}",
        )


def remove_tree(path: Path) -> None:
    """Delete a tree, also one with read-only folders or one that a dying process still writes into.

    A path that is not there is fine; nothing outside ``path`` is touched. Raises :class:`OSError` when it cannot be
    done, or when something writes faster than it can be deleted for ``REMOVE_PATIENCE_S`` seconds.
    """
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    deadline = time.monotonic() + REMOVE_PATIENCE_S
    while True:
        try:
            root = os.fspath(path)
            shutil.rmtree(root, onexc=functools.partial(_unlock, root))
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def _unlock(root: str, function: Callable[..., object], failed: str, error: BaseException) -> None:
    """rmtree's error handler: make what is in the way writable and delete it; pass on what that does not help."""
    if isinstance(error, FileNotFoundError):
        return
    if not isinstance(error, PermissionError):
        raise error
    if failed != root:
        os.chmod(os.path.dirname(failed), 0o700)
    if not os.path.isdir(failed) or os.path.islink(failed):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(failed)
        return
    os.chmod(failed, 0o700)
    if function is os.rmdir:
        os.rmdir(failed)
    else:
        shutil.rmtree(failed, onexc=functools.partial(_unlock, failed))


@contextlib.contextmanager
def exclusive(path: Path, purpose: str) -> Iterator[None]:
    """Hold the lock file ``path``; raises :class:`RefusedError` when another process has it, naming that process
    and the ``purpose`` it gave.

    The kernel drops the lock when the holder dies, so a kill never leaves it behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid, _, running = os.pread(handle, 256, 0).decode(errors="replace").strip().partition(" ")
            raise RefusedError(
                f"{purpose}: {running or 'another Orbit'} is running (process {pid or 'unknown'}, lock {path})",
                fix="wait for it to end, or stop that process",
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()} {purpose}".encode(), 0)
        yield
    finally:
        os.close(handle)


def _first(error: OSError) -> OSError:
    """Of the many errors that copying a tree may come to, the first; any other as it is."""
    if not isinstance(error, shutil.Error) or not isinstance(error.args[0], list):
        return error
    source, target, said = error.args[0][0]
    number = re.match(r"\[Errno (\d+)\] ([^:]+)", str(said))
    return OSError(int(number[1]), number[2], str(source), None, str(target)) if number else OSError(str(said))


def from_os_error(error: OSError, doing: str) -> OrbitError:
    """Turn an operating-system error met while ``doing`` something into a sentence with a next step.

    Of two files (a copy, a link, a new name) the second is the one that is written, so it is what has no room.
    """
    error = _first(error)
    full = error.errno in FULL
    named = (full and error.filename2) or error.filename
    where = f": {named}" if named else ""
    said = error.strerror or str(error) or type(error).__name__
    if full or said.startswith(NO_TEMPORARY):  # the latter calls itself ENOENT
        what = f"no room left on disk while {doing}{where}" if full else f"{said}, while {doing}"
        return RefusedError(
            what,
            fix="free some room (nothing half-written was kept) and run the same command again"
            + ("" if full else "; TMPDIR names another folder for temporary files"),
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return RefusedError(
            f"not allowed to read or write while {doing}{where} ({said})",
            fix="choose a folder you may write to: ORBIT_CACHE for the cache, --out or --dist for results",
        )
    if error.errno == errno.EISDIR:
        return InputError(f"{error.filename or doing}: is a folder", fix="name a file")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return InputError(f"{said} while {doing}{where}", fix="correct the path named")
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if not NETWORK_ERRORS.isdisjoint(kinds) or error.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH):
        return MissingError(
            f"no answer from the network while {doing} ({said})",
            fix="check the connection, the proxy variables and SSL_CERT_FILE, then run the same command again",
        )
    return RefusedError(f"{said} while {doing}{where}", fix="see the path named")
