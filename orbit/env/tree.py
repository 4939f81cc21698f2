"""A finished tree: fixed modes and times, and a manifest that shows in about a second whether anything was touched.

The manifest holds kind, mode, size and time of every path. All times are equal by construction, so any later write
shows, whoever did it; only a change that restores size *and* time would not (the audit compares content).
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from orbit.errors import CheckFailed

EPOCH_S = 1767225600
"""2026-01-01 00:00:00 UTC: the modification time of everything in an environment."""
EPOCH_NS = EPOCH_S * 10**9
MANIFEST = "manifest.tsv"


@dataclass(frozen=True, slots=True)
class Sealed:
    """What :func:`seal` saw."""

    num_files: int
    num_bytes: int
    lines: tuple[str, ...]
    """The manifest, see :func:`manifest_lines`."""
    own: Mapping[str, int]
    """Size of each file that is not shared."""
    links: tuple[str, ...]
    touched: tuple[str, ...]
    """Shared files that are not there, or not as their line says."""


def seal(root: Path, shared: Mapping[str, str] | None = None) -> Sealed:
    """Set modes (0755 folders and programs, 0644 files) and times of everything below ``root``, and ``root`` itself.

    ``shared`` are files that are linked from another sealed tree: only looked at, and compared with the rest of their
    manifest's line. Raises :class:`CheckFailed` for what must not be in an environment: a link that leads out of it or
    is absolute, any other file that is also linked from elsewhere (it could change under us), a socket, a device.
    """
    left = dict(shared or {})
    size = num_shared = 0
    lines: list[str] = []
    own: dict[str, int] = {}
    links: list[str] = []
    touched: list[str] = []
    resolved = os.path.realpath(root)
    for relative, entry in _walk(os.fspath(root)):
        state = entry.stat(follow_symlinks=False)
        expected = left.pop(relative, None)
        if expected is None:
            kind = _settle(relative, entry.path, state, resolved)
            state = os.lstat(entry.path)
            if kind == stat.S_IFREG:
                own[relative] = state.st_size
            elif kind == stat.S_IFLNK:
                links.append(relative)
        rest = _rest(state)
        if expected is not None:
            num_shared += 1
            size += state.st_size
            if rest != expected:
                touched.append(relative)
        lines.append(f"{relative}\t{rest}")
    _set_mode(os.fspath(root), os.lstat(root), 0o755)
    os.utime(root, ns=(EPOCH_NS, EPOCH_NS))
    lines.sort()
    return Sealed(
        num_files=len(own) + num_shared,
        num_bytes=sum(own.values()) + size,
        lines=tuple(lines),
        own=own,
        links=tuple(sorted(links)),
        touched=tuple(sorted([*touched, *left])),
    )


def _settle(relative: str, path: str, state: os.stat_result, root: str) -> int:
    """Give one path its mode and time; which kind of thing it is (S_IFREG, S_IFDIR, S_IFLNK)."""
    if "\n" in relative or "\t" in relative:
        raise CheckFailed(f"{relative!r}: a name with a line break or tab", fix="remove it from its package")
    kind = stat.S_IFMT(state.st_mode)
    if kind == stat.S_IFLNK:
        _check_link(path, root)
    elif kind == stat.S_IFDIR:
        _set_mode(path, state, 0o755)
    elif kind == stat.S_IFREG:
        if state.st_nlink != 1:
            raise CheckFailed(f"{path}: also linked from elsewhere", fix="this is a defect in orbit; report it")
        _set_mode(path, state, 0o755 if state.st_mode & 0o111 else 0o644)
    else:
        raise CheckFailed(f"{path}: neither file, folder nor link", fix="remove it from its package")
    os.utime(path, ns=(EPOCH_NS, EPOCH_NS), follow_symlinks=False)
    return kind


def _set_mode(path: str, state: os.stat_result, mode: int) -> None:
    if stat.S_IMODE(state.st_mode) != mode:
        os.chmod(path, mode)


def _check_link(path: str, root: str) -> None:
    target = os.readlink(path)
    leads = os.path.realpath(path)
    if target.startswith("/") or not (leads == root or leads.startswith(f"{root}/")) or not os.path.exists(leads):
        raise CheckFailed(
            f"{path}: links to {target}, which is not inside the environment",
            fix="this is a defect in orbit; report it",
        )


def _walk(root: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Every path below ``root``, relative, with its entry; in no order."""
    pending = [root]
    skip = len(root) + 1
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                yield entry.path[skip:], entry


def _rest(state: os.stat_result) -> str:
    size = 0 if stat.S_ISDIR(state.st_mode) else state.st_size  # of a folder it differs between file systems
    return f"{state.st_mode:o}\t{size}\t{state.st_mtime_ns}"


def state_of(path: Path) -> str:
    """A manifest's line without the path: kind and mode, size and time. Raises OSError."""
    return _rest(os.lstat(path))


def manifest_lines(root: Path) -> list[str]:
    """One line for each path below ``root``, sorted: ``path TAB kind-and-mode TAB size TAB nanoseconds``."""
    walk = _walk(os.fspath(root))
    return sorted(f"{relative}\t{_rest(entry.stat(follow_symlinks=False))}" for relative, entry in walk)


def touched(root: Path, manifest: Mapping[str, str], paths: Iterable[str]) -> str:
    """The first of ``paths`` that is not as ``manifest`` (rest of the line by path) says; empty when all are."""
    for path in paths:
        try:
            now = state_of(root / path)
        except OSError:
            return path
        if now != manifest.get(path):
            return path
    return ""


def listing(root: Path) -> tuple[set[str], set[str]]:
    """Relative paths below ``root``: files and links, and folders."""
    files: set[str] = set()
    folders: set[str] = set()
    for relative, entry in _walk(os.fspath(root)):
        (folders if entry.is_dir(follow_symlinks=False) else files).add(relative)
    return files, folders


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write ``lines``, which may hold names that are not UTF-8."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="surrogateescape")


def read_lines(path: Path) -> list[str]:
    """What :func:`write_lines` wrote. Raises OSError."""
    return path.read_text(encoding="utf-8", errors="surrogateescape").split("\n")[:-1]


def damage(root: Path, manifest: Path) -> str:
    """What is different from the manifest, in words, or an empty string. Names the first path only."""
    if not root.is_dir():
        return f"{root} is not there"
    try:
        wanted = read_lines(manifest)
    except OSError as error:
        return f"{manifest.name}: {error.strerror}"
    found = manifest_lines(root)
    if wanted == found:
        return ""
    was = dict(line.split("\t", 1) for line in wanted)
    now = dict(line.split("\t", 1) for line in found)
    for path in sorted({path for path in was.keys() | now.keys() if was.get(path) != now.get(path)}, key=_deepest):
        if path not in now:
            return f"{path} is missing"
        return f"{path} was {'changed' if path in was else 'added'}"
    return "the manifest is out of order"


def _deepest(path: str) -> tuple[int, str]:
    """A changed file also changes its folder's time: the file is the better thing to name."""
    return (-path.count("/"), path)


def sync(root: Path) -> None:
    """Have everything on ``root``'s file system on the disk (syncfs, Linux 2.6.39): quicker than file by file."""
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(handle) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), os.fspath(root))
    finally:
        os.close(handle)
