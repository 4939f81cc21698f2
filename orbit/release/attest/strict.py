"""Reading what others wrote and signed: JSON that every reader understands alike, base64 that has one spelling.

Two readers of one signed text must see one thing, else what was checked and what is used can differ. So a key that
stands twice, a number that is none, half a character and base64 with bits to spare are refused, not repaired.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import Counter
from typing import Any

import msgspec

from orbit.errors import InputError

STANDARD = re.compile(r"[A-Za-z0-9+/]*={0,2}", re.ASCII)
URL_SAFE = re.compile(r"[A-Za-z0-9_-]*={0,2}", re.ASCII)
MAKE_ANEW = "the file was edited, cut short or written by another tool: make it anew"


def strict_json(data: bytes, where: str) -> Any:
    """The JSON value in ``data``; ``where`` names it in errors.

    Raises :class:`InputError` for anything two readers could read differently: not UTF-8, a key that stands twice, NaN
    or an infinite number, half of a surrogate pair, nesting too deep, text after the end.
    """
    try:
        json.loads(data.decode(), object_pairs_hook=_once, parse_constant=_no_number)
        return msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:  # msgspec.DecodeError is a ValueError
        raise InputError(f"{where}: not JSON that can be relied on: {_short(error)}", fix=MAKE_ANEW) from None


def decode_base64(text: str, where: str) -> bytes:
    """The bytes in ``text``: base64 of the standard or the URL-safe alphabet (RFC 4648), padded, spelt in the one way.

    Raises :class:`InputError` naming ``where`` for both alphabets in one text, white space, wrong or missing padding.
    """
    if not STANDARD.fullmatch(text):
        if not URL_SAFE.fullmatch(text):
            raise InputError(f"{where}: not base64", fix=MAKE_ANEW)
        text = text.translate(str.maketrans("-_", "+/"))
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError(f"{where}: not base64: {error}", fix=MAKE_ANEW) from None
    if base64.b64encode(data).decode() != text:
        raise InputError(f"{where}: not base64: its last character holds bits of nothing", fix=MAKE_ANEW)
    return data


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object none of whose keys stands twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return found


def _no_number(word: str) -> float:
    """``NaN``, ``Infinity``: Python reads them, JSON has none."""
    raise ValueError(f"{word} is no number of JSON")


def _short(error: BaseException) -> str:
    """The first line, without the text it is about."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
