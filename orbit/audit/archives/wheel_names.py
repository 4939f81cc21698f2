"""What file names of wheels say: project, version, tags; which wheels an installer would take together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.tags import Tag, compatible_tags, cpython_tags, parse_tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from orbit.audit.known.policies import load_policies

MACHINE = "x86_64"
"""Of the environments that profiles describe."""
MAX_TAGS = 4096
"""A name that stands for more tags is refused: three compressed parts multiply."""


@dataclass(frozen=True, slots=True)
class WheelName:
    """The file name of a wheel, read."""

    file: str
    name: str
    """Normalised."""
    version: str
    tags: frozenset[Tag]
    problem: str = ""
    """Why installers refuse the name; then the other fields are empty."""


@dataclass(frozen=True, slots=True)
class WheelSet:
    """Wheels that are judged as if they were installed together."""

    paths: tuple[Path, ...]
    reason: str = ""
    """Why they are not part of the first set; empty for the first."""


def read_name(file: str) -> WheelName:
    """What a file name says; never raises."""
    parts = file.removesuffix(".whl").rsplit("-", 3)[1:]
    size = 1
    for part in parts:
        size *= part.count(".") + 1
    if size > MAX_TAGS:
        return WheelName(file, "", "", frozenset(), f"it stands for {size} tags")
    try:
        name, version, _build, tags = parse_wheel_filename(file)
    except (InvalidWheelFilename, InvalidVersion, ValueError) as error:
        return WheelName(file, "", "", frozenset(), str(error))
    return WheelName(file, name, str(version), tags)


def read_tags(lines: Iterable[str]) -> set[str]:
    """The single tags that ``Tag`` lines of WHEEL stand for, compressed ones (``py2.py3-none-any``) taken apart."""
    found: set[str] = set()
    for line in lines:
        size = 1
        for part in line.split("-"):
            size *= part.count(".") + 1
        try:
            found |= {str(tag) for tag in parse_tag(line)} if line.count("-") == 2 and size <= MAX_TAGS else {line}
        except ValueError:  # what packaging calls no tag
            found.add(line)
    return found


def platforms(machine: str, glibc: int) -> tuple[str, ...]:
    """Platform tags that a system of ``machine`` with glibc 2.``glibc`` takes, the best first."""
    alias = {floor.glibc: floor.alias for floor in load_policies().floors if floor.alias}
    found: list[str] = []
    for minor in range(glibc, 4, -1):
        found.append(f"manylinux_2_{minor}_{machine}")
        if minor in alias:
            found.append(f"{alias[minor]}_{machine}")
    return (*found, f"linux_{machine}")


def installable(python: tuple[int, int], machine: str, glibc: int) -> dict[Tag, int]:
    """The tags that an installer takes there, by rank (0 is the best)."""
    names = platforms(machine, glibc)
    tags = (
        *cpython_tags(python, platforms=names),
        *compatible_tags(python, interpreter=f"cp{python[0]}{python[1]}", platforms=names),
    )
    return {tag: rank for rank, tag in reversed(list(enumerate(tags)))}


def pythons_of(name: WheelName) -> frozenset[tuple[int, int]]:
    """The CPython versions that the interpreter tags name one by one (``cp312``); none for ``py3``."""
    found = set()
    for tag in name.tags:
        digits = tag.interpreter[2:]
        if tag.interpreter.startswith("cp") and digits.isdecimal() and len(digits) > 1:
            found.add((int(digits[0]), int(digits[1:])))
    return frozenset(found)


def wheel_sets(paths: Sequence[Path], python: tuple[int, int], machine: str, glibc: int) -> tuple[WheelSet, ...]:
    """The set that an installer would make of these wheels, then every other wheel alone with the reason.

    Of several wheels of one project the set has the newest version that fits ``python``, ``machine`` and glibc
    2.``glibc``, and of that the wheel an installer prefers; when none fits, the newest.
    """
    ranks = installable(python, machine, glibc)
    groups: dict[str, list[tuple[tuple[bool, Version, int, str], Path]]] = defaultdict(list)
    for path in paths:
        name = read_name(path.name)
        rank = min((ranks[tag] for tag in name.tags if tag in ranks), default=-1)
        version = Version(name.version) if name.version else Version("0")
        groups[name.name or f"?{path.name}"].append(((rank >= 0, version, -rank, path.name), path))
    first: list[Path] = []
    others: list[WheelSet] = []
    for members in groups.values():
        *rest, (_key, best) = sorted(members, key=lambda member: member[0])
        first.append(best)
        others += [
            WheelSet((path,), f"{best.name} is taken of this project: {_why(key)}") for key, path in reversed(rest)
        ]
    return (WheelSet(tuple(sorted(first, key=lambda path: path.name))), *others)


def _why(key: tuple[bool, Version, int, str]) -> str:
    return "this one is older or less specific" if key[0] else "this one does not fit the profile's Python and system"
