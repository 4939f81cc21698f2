"""Whether the image's files are whole for the user who looks: readable, linked inside, complete, without old code."""

from __future__ import annotations

import csv
import fnmatch
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbit.smoke.model import CheckError, Context

SHOWN = 6
VERSIONED = re.compile(r"sm_?\d{2,3}|(^|[^0-9])\d+\.\d+|cu\d{2,3}|[0-9a-f]{12,}")
"""What says for which release or device something was compiled."""


def check_tree(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Walk ``folders`` (``{prefix}`` is replaced) as this user.

    Every folder and file must be readable, programs in ``bin`` runnable, every link must lead to something without
    climbing out of the root; every file that a distribution's RECORD lists must be there. ``but``: shell patterns of
    whole paths that are passed over.
    """
    prefix = context.prefix or sys.prefix
    but = tuple(str(item).format(prefix=prefix) for item in parameters.get("but", ()))
    problems: list[str] = []
    files = 0
    for name in parameters["folders"]:
        folder = str(name).format(prefix=prefix)
        if not os.path.isdir(folder):
            problems.append(f"{folder}: no such folder")
            continue
        for entry in walk(folder):
            files += 1
            fault = entry_fault(entry, f"{prefix}/bin")
            if fault and not any(fnmatch.fnmatchcase(entry.path, item) for item in but):
                problems.append(f"{entry.path}: {fault}")
    problems += record_faults(site_packages(prefix))
    if not files:
        problems.append("nothing was found to look at")
    _raise(problems)
    return {"summary": f"{files} files and folders: readable, linked inside, complete", "files": files}


def check_caches(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """No cache of code compiled at run time is in the image unless its path says for which release or device.

    ``folders`` are searched (``{prefix}`` is replaced) for folders whose path ends in one of ``caches`` (shell patterns
    of one or more components); one that holds a file is a problem.
    """
    prefix = context.prefix or sys.prefix
    endings = tuple(str(item) for item in parameters["caches"])
    if not endings:
        raise CheckError("caches is empty: nothing was looked for")
    problems, searched = [], 0
    for name in parameters["folders"]:
        folder = str(name).format(prefix=prefix)
        for entry in walk(folder) if os.path.isdir(folder) else ():
            if entry.is_folder:
                searched += 1
                if ends_in(entry.path, endings) and not VERSIONED.search(_own_part(entry.path)):
                    held = next((item.path for item in walk(entry.path) if not item.is_folder), "")
                    if held:
                        problems.append(f"{entry.path}: compiled code without release or device in its path ({held})")
    _raise(problems)
    return {"summary": f"no compiled code of unknown origin in {searched} folders", "folders": searched}


def _own_part(path: str) -> str:
    """Without ``lib/python3.12/site-packages``, whose number says nothing of what lies below."""
    return path.rpartition("/site-packages/")[2]


def ends_in(path: str, endings: Sequence[str]) -> bool:
    """Whether the last components of ``path`` match one of the patterns."""
    parts = path.strip("/").split("/")
    return any(
        len(parts) >= len(words := ending.split("/"))
        and all(fnmatch.fnmatchcase(part, word) for part, word in zip(parts[-len(words) :], words, strict=True))
        for ending in endings
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of the tree."""

    path: str
    is_folder: bool
    is_link: bool
    mode: int


def walk(folder: str) -> Iterator[Entry]:
    """Everything below ``folder``, links not followed; a folder that cannot be listed is yielded and not entered."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda item: item.name)
    except OSError:
        return
    for item in entries:
        is_folder = item.is_dir(follow_symlinks=False)
        try:
            mode = item.stat(follow_symlinks=False).st_mode
        except FileNotFoundError:  # in place others work in the same folders
            continue
        yield Entry(item.path, is_folder, item.is_symlink(), mode)
        if is_folder:
            yield from walk(item.path)


def entry_fault(entry: Entry, programs: str) -> str:
    """What is wrong with one path; empty when nothing is. ``programs``: the folder of which every file can be run."""
    if entry.is_link:
        target = os.readlink(entry.path)
        depth = entry.path.count("/") - 1
        if not target.startswith("/") and os.path.normpath(target).split("/").count("..") > depth:
            return f"a link that climbs out of the image: {target}"
        return "" if os.path.exists(entry.path) else f"a link to nothing: {target}"
    wanted = os.R_OK | os.X_OK if entry.is_folder else os.R_OK
    if not os.access(entry.path, wanted):
        return f"uid {os.getuid()} may not read it (mode {stat.S_IMODE(entry.mode):04o})"
    if not entry.is_folder and os.path.dirname(entry.path) == programs and not entry.mode & 0o111:
        return f"a program that nobody may run (mode {stat.S_IMODE(entry.mode):04o})"
    return ""


def record_faults(site: Path | None) -> list[str]:
    """Distributions of which files are missing, by their RECORD (PyPA, recording installed projects)."""
    problems = []
    for record in sorted(site.glob("*.dist-info/RECORD")) if site else ():
        with open(record, encoding="utf-8", newline="") as file:
            listed = [row[0] for row in csv.reader(file) if row and not row[0].endswith(".pyc")]
        missing = [name for name in listed if not os.path.isfile(os.path.join(record.parent.parent, name))]
        if missing:
            name = record.parent.name.removesuffix(".dist-info")
            problems.append(f"{name}: {len(missing)} of {len(listed)} files of its RECORD are missing: {missing[0]}")
    return problems


def site_packages(prefix: str) -> Path | None:
    """The environment's site-packages."""
    return next(iter(sorted(Path(prefix).glob("lib/python3.*/site-packages"))), None)


def _raise(problems: Sequence[str]) -> None:
    if problems:
        more = f" and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise CheckError("; ".join(problems[:SHOWN]) + more)
