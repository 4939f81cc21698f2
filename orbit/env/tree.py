"""A finished tree: fixed modes and times, and a manifest that shows in about a second whether anything was touched.

The manifest holds kind, mode, size and time of every path. All times are equal by construction, so any later write
shows, whoever did it; only a change that restores size *and* time would not (the audit compares content).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orbit.errors import CheckFailed

EPOCH_S = 1767225600
"""2026-01-01 00:00:00 UTC: the modification time of everything in an environment."""
MANIFEST = "manifest.tsv"


@dataclass(frozen=True, slots=True)
class Sealed:
    """What :func:`seal` saw."""

    num_files: int
    num_links: int
    num_bytes: int


def seal(root: Path) -> Sealed:
    """Set modes (0755 folders and programs, 0644 files) and times of everything below ``root``, and ``root`` itself.

    Raises :class:`CheckFailed` for what must not be in an environment: a link that leads out of it or is absolute, a
    file that is also linked from elsewhere (it could change under us), a socket, a device.
    """
    files = links = size = 0
    times = (EPOCH_S * 10**9, EPOCH_S * 10**9)
    resolved = os.path.realpath(root)
    for path, state in _walk(os.fspath(root)):
        if stat.S_ISLNK(state.st_mode):
            links += 1
            _check_link(path, resolved)
        elif stat.S_ISDIR(state.st_mode):
            _set_mode(path, state, 0o755)
        elif stat.S_ISREG(state.st_mode):
            files += 1
            size += state.st_size
            if state.st_nlink != 1:
                raise CheckFailed(f"{path}: also linked from elsewhere", fix="this is a defect in orbit; report it")
            _set_mode(path, state, 0o755 if state.st_mode & 0o111 else 0o644)
        else:
            raise CheckFailed(f"{path}: neither file, folder nor link", fix="remove it from its package")
        os.utime(path, ns=times, follow_symlinks=False)
    _set_mode(os.fspath(root), os.lstat(root), 0o755)
    os.utime(root, ns=times)
    return Sealed(files, links, size)


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


def _walk(root: str) -> Iterator[tuple[str, os.stat_result]]:
    """Every path below ``root`` with its own state, a folder after what is in it (so that its time can be set)."""
    with os.scandir(root) as entries:
        found = list(entries)
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path)
        yield entry.path, entry.stat(follow_symlinks=False)


def manifest_lines(root: Path) -> list[str]:
    """One line for each path below ``root``, sorted: ``path TAB kind-and-mode TAB size TAB seconds.nanoseconds``."""
    lines: list[str] = []
    base = os.fspath(root)
    pending = [base]
    skip = len(base) + 1
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                state = entry.stat(follow_symlinks=False)
                mode = state.st_mode
                size = state.st_size
                if stat.S_ISDIR(mode):
                    pending.append(entry.path)
                    size = 0  # differs between file systems
                lines.append(f"{entry.path[skip:]}\t{mode:o}\t{size}\t{state.st_mtime_ns}")
    lines.sort()
    return lines


def write_manifest(root: Path, path: Path) -> None:
    """Write the manifest of ``root`` to ``path``."""
    path.write_text("\n".join(manifest_lines(root)) + "\n", encoding="utf-8", errors="surrogateescape")


def damage(root: Path, manifest: Path) -> str:
    """What is different from the manifest, in words, or an empty string. Names the first path only."""
    if not root.is_dir():
        return f"{root} is not there"
    try:
        wanted = manifest.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
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
