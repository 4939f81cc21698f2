"""Logs of a failure, kept where somebody can read them when the job's folder is gone: bounded, the newest first."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

FILE_BYTES = 1 << 20
"""The end of each file."""
TOTAL_BYTES = 64 << 20


def log_place(env: Mapping[str, str], shared: str, *, job: str, attempt: str) -> Path | None:
    """The folder for one attempt's logs: in the shared folder, else in the state folder; None without either."""
    base = shared or env.get("ORBIT_STATE", "")
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", job)
    return Path(base) / "orbit-logs" / f"{name}-{attempt[:8]}" if base else None


def keep_logs(sources: Iterable[Path], target: Path) -> int:
    """Copy the end of every file below ``sources`` into the new folder ``target``; gives how many there are.

    Never fails a job: a file that cannot be read or written is left out. Links are not followed.
    """
    files = sorted((path for source in sources for path in _files(source)), key=_age, reverse=True)
    left, kept = TOTAL_BYTES, 0
    for path, relative in [(path, path.relative_to(_root(path, sources))) for path in files]:
        if left <= 0:
            break
        with contextlib.suppress(OSError):
            size = path.stat().st_size
            if not size:
                continue
            place = target / relative
            place.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "rb") as source:
                source.seek(max(0, size - FILE_BYTES))
                data = source.read(min(FILE_BYTES, left))
            place.write_bytes(data)
            place.chmod(0o600)
            left -= len(data)
            kept += 1
    return kept


def _files(source: Path) -> list[Path]:
    if source.is_file():
        return [source]
    return [Path(folder) / name for folder, _, names in os.walk(source) for name in names if _plain(folder, name)]


def _plain(folder: str, name: str) -> bool:
    place = os.path.join(folder, name)
    return os.path.isfile(place) and not os.path.islink(place)


def _root(path: Path, sources: Iterable[Path]) -> Path:
    return next(source.parent if source == path else source for source in sources if path.is_relative_to(source))


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
