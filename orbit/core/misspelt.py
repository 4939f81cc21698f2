"""What somebody may have meant who wrote a key or a value that a record does not have."""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Iterable, Iterator
from typing import Any, TypeAliasType

import msgspec

KEY = re.compile(r"unknown field `(?P<word>[^`]*)`(?: - at `\$(?P<path>[^`]*)`)?")
VALUE = re.compile(r"Invalid enum value '(?P<word>[^']*)'(?: - at `\$(?P<path>[^`]*)`)?")
"""The messages of msgspec; anything else has no hint."""
CLOSE = 0.6
SHOWN = 12


def hint(kind: Any, message: str) -> str:
    """A sentence for what msgspec said while it read a ``kind``; empty when there is nothing to add."""
    if found := KEY.search(message):
        known = [field.encode_name for each in _at(kind, found["path"] or "") for field in _fields(each)]
        return _sentence(found["word"], known, "key")
    if found := VALUE.search(message):
        values = [str(value) for each in _at(kind, found["path"] or "") for value in _values(each)]
        return _sentence(found["word"], values, "value")
    return ""


def _sentence(word: str, known: Iterable[str], what: str) -> str:
    names = list(dict.fromkeys(known))
    close = difflib.get_close_matches(word, names, n=2, cutoff=CLOSE)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    return f"{what}s known there: {', '.join(names)}" if 0 < len(names) <= SHOWN else ""


def _at(kind: Any, path: str) -> list[Any]:
    """The types at a place such as ``.storage.mounts[0]``. Items of a list or a table have the types inside its own."""
    here = [kind]
    for name in re.sub(r"\[[^]]*\]", "", path).split(".")[1:]:
        here = [field.type for each in here for field in _fields(each) if field.encode_name == name]
    return here


def _fields(kind: Any) -> Iterator[msgspec.structs.FieldInfo]:
    for each in _parts(kind):
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            yield from msgspec.structs.fields(each)


def _values(kind: Any) -> Iterator[Any]:
    for each in _parts(kind):
        if typing.get_origin(each) is typing.Literal:
            yield from typing.get_args(each)
        elif isinstance(each, type) and hasattr(each, "__members__"):
            yield from (member.value for member in each.__members__.values())


def _parts(kind: Any) -> Iterator[Any]:
    """``kind`` and every type it is written with: aliases, unions, items of lists and tables."""
    if isinstance(kind, TypeAliasType):
        kind = kind.__value__
    yield kind
    if typing.get_origin(kind) is not typing.Literal:
        for each in typing.get_args(kind):
            yield from _parts(each)
