"""What the names of kernels and the texts in them say about the architecture they are for, as data and as rules.

``kernels/expectations/device.toml`` holds what is known of all device code, whatever the profile: number formats that
only newer devices have instructions for, and the texts that guarded code prints when it was compiled for the wrong
architecture.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from orbit.core.paths import data_file
from orbit.core.records import Record, load_toml
from orbit.errors import InputError
from orbit.kernels.capabilities import table

SKIPPED = re.compile(r"L[a-z]n?\d+E|S[0-9A-Z]*_|T\d*_|A\d+_|Dv\d+_")
"""Parts of a mangled name (Itanium C++ ABI) whose digits are no lengths: literals, substitutions, parameters."""
IDENTIFIER = re.compile(r"[A-Za-z_$][\w$.]*")
MARK = re.compile(r"(?<![A-Za-z])[sS][mM]_?(\d{2,3})(?!\d)|(?<=[a-z\d_])(?:Sm|SM)_?(\d{2,3})(?!\d)")
"""``sm90``, ``SM100``, ``Sm90`` inside a word."""

NAME_CHARS = 100
BEFORE_VOLTA = ("3.0", "3.5", "3.7", "5.0", "5.2", "5.3", "6.0", "6.1", "6.2")
"""Capabilities that kernels may still be named for and that the capability table has no rows of."""
DOTTED = re.compile(r"\b[Ss][Mm] ?(\d{1,2}\.\d)\b")
"""``SM 10.0`` in a sentence."""


class Format(Record, frozen=True, kw_only=True):
    """A number format that devices compute with from one capability on."""

    words: tuple[str, ...]
    """Parts of identifiers, lower case."""
    capability: str
    """First compute capability that has instructions for it."""
    reason: str


class Guard(Record, frozen=True, kw_only=True):
    """A text that code prints when it runs on an image compiled for the wrong architecture."""

    text: str
    """Regular expression."""
    project: str


class DeviceKnowledge(Record, frozen=True, kw_only=True):
    """All of ``kernels/expectations/device.toml``."""

    schema: int
    formats: tuple[Format, ...]
    guards: tuple[Guard, ...]


@functools.cache
def knowledge() -> DeviceKnowledge:
    """The shipped data. Raises :class:`InputError` naming file and key when it is wrong."""
    path = data_file("kernels", "expectations", "device.toml")
    loaded = load_toml(path, DeviceKnowledge)
    if loaded.schema != 1:
        raise InputError(f"{path}: schema {loaded.schema} is not known", fix="this version of orbit reads schema 1")
    for guard in loaded.guards:
        try:
            re.compile(guard.text)
        except re.error as error:
            raise InputError(f"{path}: guards.text = {guard.text!r}: {error}", fix="correct the expression") from None
    for item in loaded.formats:
        if table().find(item.capability) is None:
            raise InputError(
                f"{path}: formats.capability = {item.capability!r} is not in kernels/capabilities.toml",
                fix='write it as "10.0"',
            )
    return loaded


def guard_pattern() -> str:
    """One regular expression for all guard texts."""
    return "|".join(f"(?:{guard.text})" for guard in knowledge().guards)


def identifiers(name: str) -> Iterator[str]:
    """The identifiers inside a mangled name (a name that is not mangled is its own identifier)."""
    if not name.startswith("_Z"):
        yield name
        return
    position = 2
    while position < len(name):
        if skipped := SKIPPED.match(name, position):
            position = skipped.end()
        elif name[position].isdigit():
            digits = re.compile(r"\d+").match(name, position)
            assert digits is not None
            end = digits.end() + int(digits[0][:6])
            word = name[digits.end() : end]
            if end <= len(name) and IDENTIFIER.fullmatch(word):
                yield word
                position = end
            else:
                position = digits.end()
        else:
            position += 1


def readable_name(name: str) -> str:
    """The words of a mangled name, cut short: enough to find the kernel in its source."""
    words = "::".join(identifiers(name)) if name.startswith("_Z") else name
    return words if len(words) <= NAME_CHARS else f"{words[:NAME_CHARS]}..."


@functools.lru_cache(1 << 16)
def own_capability(name: str) -> str:
    """The capability a kernel's name says it is for; empty when it says none.

    A kernel for one architecture is built of parts named for older ones (CUTLASS kernels for ``Sm100`` load with
    ``SM90_TMA_LOAD``), so the newest counts.
    """
    return newest_mark(identifiers(name))


def newest_mark(words: Iterator[str]) -> str:
    """The newest capability that ``words`` name; empty when they name none that there is."""
    found = [
        capability
        for word in words
        for match in MARK.finditer(word)
        if is_known(capability := f"{(number := match[1] or match[2])[:-1]}.{number[-1]}")
    ]
    return max(found, key=as_pair, default="")


def is_known(capability: str) -> bool:
    """Whether there are or were devices of that capability."""
    return capability in BEFORE_VOLTA or table().find(capability) is not None


@functools.lru_cache(1 << 16)
def needs_capability(name: str) -> str:
    """The first capability that has the number formats in a kernel's name; empty when it names none of those known."""
    words = " ".join(identifiers(name)).lower()
    found = [item.capability for item in knowledge().formats if any(word in words for word in item.words)]
    return max(found, key=as_pair, default="")


def stated_capability(text: str) -> str:
    """The newest capability that a message speaks of: ``sm90a``, ``SM 10.0``, ``Blackwell``; empty when of none."""
    found = [newest_mark(iter((text,)))]
    found += [number for number in DOTTED.findall(text) if table().find(number)]
    for row in table().capabilities:
        if re.search(rf"\b{row.generation}\b", text):
            found.append(row.capability)
            break
    return max(filter(None, found), key=as_pair, default="")


def is_for_others(name: str, says: str, capability: str) -> bool:
    """Whether a kernel is by its own name (else by what it says) for devices other than ``capability``.

    Kernels up to Ampere and Ada run on everything newer; from Hopper on the instructions a kernel is named for
    (wgmma, tcgen05) exist on that capability only.
    """
    if (needed := needs_capability(name)) and as_pair(capability) < as_pair(needed):
        return True
    own = own_capability(name) or stated_capability(says)
    if not own or own == capability:
        return False
    row = table().find(own)
    return as_pair(own) > as_pair(capability) or (row is not None and row.a != "")


def as_pair(capability: str) -> tuple[int, int]:
    """``(9, 0)`` of ``9.0``."""
    major, _, minor = capability.partition(".")
    return int(major), int(minor)
