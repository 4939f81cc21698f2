"""The one platform images are made for: CPython 3.12 on Linux x86-64 with glibc 2.36 (Debian 12, the images' base).

Markers and wheel tags are judged against it, never against the machine that runs this code, so a laptop and a build
machine give the same answer.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NewType

from packaging.markers import Marker, UndefinedEnvironmentName
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from orbit.errors import InputError

GLIBC = (2, 36)
"""glibc of the images' base; a wheel tagged manylinux_2_37 or later is not usable."""
LEGACY_MANYLINUX = {17: "manylinux2014_x86_64", 12: "manylinux2010_x86_64", 5: "manylinux1_x86_64"}
"""Old names of glibc floors (PEP 600)."""
MARKER_ENVIRONMENT = {
    "implementation_name": "cpython",
    "implementation_version": "3.12.0",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_release": "",
    "platform_system": "Linux",
    "platform_version": "",
    "python_full_version": "3.12.0",
    "python_version": "3.12",
    "sys_platform": "linux",
    "extra": "",
}
"""PEP 508 markers are evaluated against this, never against the running machine."""

Rank = NewType("Rank", int)


@functools.cache
def tag_ranks() -> dict[Tag, Rank]:
    """Every wheel tag usable on the target platform, the most specific first (rank 0)."""
    major, minor = GLIBC
    platforms = []
    for floor in range(minor, 4, -1):
        platforms.append(f"manylinux_{major}_{floor}_x86_64")
        if floor in LEGACY_MANYLINUX:
            platforms.append(LEGACY_MANYLINUX[floor])
    platforms.append("linux_x86_64")
    ordered = [
        *cpython_tags((3, 12), abis=["cp312"], platforms=platforms),
        *compatible_tags((3, 12), interpreter="cp312", platforms=platforms),
    ]
    ranks: dict[Tag, Rank] = {}
    for tag in ordered:
        ranks.setdefault(tag, Rank(len(ranks)))
    return ranks


def wheel_rank(filename: str) -> tuple[Rank, tuple[int, str]] | None:
    """How good a wheel is here (less is better), or None when it is not usable. A higher build number wins a tie."""
    try:
        _, _, build, tags = parse_wheel_filename(filename)
    except InvalidWheelFilename:
        return None
    ranks = [rank for tag in tags if (rank := tag_ranks().get(tag)) is not None]
    if not ranks:
        return None
    number, suffix = build or (0, "")
    return min(ranks), (-number, suffix)


@functools.cache
def marker_holds(marker: str, where: Path) -> bool:
    """Whether a PEP 508 marker is true on the target platform. ``where`` names the file in errors."""
    try:
        return Marker(marker).evaluate(MARKER_ENVIRONMENT)
    except (ValueError, UndefinedEnvironmentName, RecursionError) as error:  # also numbers of thousands of digits
        raise InputError(f"{where}: marker {marker!r} is not valid: {error}", fix="run `uv lock`") from None
