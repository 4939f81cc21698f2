"""What an unpacked wheel holds: metadata, what should be in it, and what should not.

Pure questions about a folder of files (see :mod:`orbit.kernels.wheels.archive`). What an archive and its RECORD say
of each other is the audit's business (rule ``wheel-archive``).
"""

from __future__ import annotations

import fnmatch
import mmap
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from orbit.audit.installed.dists import read_headers
from orbit.core.findings import Finding, Severity
from orbit.errors import InputError
from orbit.kernels.wheels.archive import dist_info, file_names

LEFTOVER = re.compile(
    r"(^|/)(?:__pycache__/.+|.+\.py[co]|.+\.(?:o|obj|d|lo|la|ii|cubin|ptx|fatbin|gch|orig|rej)|\.ninja_(?:log|deps)"
    r"|build\.ninja|CMakeCache\.txt|CMakeFiles/.+|build\.log|units\.jsonl|compile_commands\.json|\.git/.+|.+\.egg-info/.+"
    r"|nvcc-[0-9a-f]+/.+|tmpxft_.+)$"
)
"""What only a build or a run leaves behind."""
FOREIGN_ROOTS = frozenset(
    {"test", "tests", "testing", "csrc", "src", "build", "docs", "doc", "examples", "example"}
    | {"benchmark", "benchmarks"}
)
"""Top-level names that every project would use for itself: installed, they are one folder for all of them."""
SHOWN = 8


def headers(folder: Path, file: str) -> dict[str, list[str]]:
    """Header fields of METADATA or WHEEL by lower-case name. Raises :class:`InputError` when the file is not there."""
    path = folder / dist_info(folder) / file
    try:
        return read_headers(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path.parent.name}/{file}: {error.strerror}", fix="build it again") from None


def version_of(folder: Path) -> str:
    """The Version of METADATA; empty when it states none."""
    return headers(folder, "METADATA").get("version", [""])[0]


def missing_artifacts(names: Iterable[str], patterns: Iterable[str]) -> tuple[str, ...]:
    """The patterns that no file matches."""
    names = tuple(names)
    return tuple(pattern for pattern in patterns if not fnmatch.filter(names, pattern))


def leaks(folder: Path, needles: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """(file, needle) for every file that contains one of the strings, e.g. the path of the build folder."""
    wanted = tuple(needles)
    found = []
    for name in file_names(folder):
        with open(folder / name, "rb") as file:
            if file.seek(0, 2) == 0:
                continue
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                found += [(name, needle) for needle in wanted if data.find(needle.encode()) >= 0]
    return tuple(found)


def disorders(folder: Path) -> tuple[Finding, ...]:
    """What is in an unpacked wheel and should not be.

    ``kernel-leftover`` is an error. ``kernel-root`` is a warning: upstream's own choice, and two such wheels overwrite
    each other.
    """
    return (*_leftovers(folder), *_roots(folder))


def _leftovers(folder: Path) -> Iterator[Finding]:
    found = [name for name in file_names(folder) if LEFTOVER.search(name)]
    if found:
        yield Finding(
            rule="kernel-leftover",
            severity=Severity.ERROR,
            subject=dist_info(folder),
            message=f"{len(found)} files that only a build or a run leaves behind",
            evidence={"files": _some(found)},
            fix="leave them out in the recipe's source (a patch), or clean them up before the wheel is packed",
        )


def _roots(folder: Path) -> Iterator[Finding]:
    found = [name for name in file_names(folder) if _top(name).lower().removesuffix(".py") in FOREIGN_ROOTS]
    if found:
        tops = ", ".join(sorted(set(map(_top, found))))
        yield Finding(
            rule="kernel-root",
            severity=Severity.WARNING,
            subject=dist_info(folder),
            message=f"installs {tops} at the top of site-packages, a name that belongs to nobody",
            evidence={"files": _some(found)},
            fix="exclude it in the project's setup (a patch with the reason)",
        )


def _top(name: str) -> str:
    return name.partition("/")[0]


def _some(names: list[str]) -> str:
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + rest
