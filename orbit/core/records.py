"""Typed TOML and JSON: load into frozen structs, or say which file, table and key is wrong.

Everything that crosses a file boundary is a subclass of :class:`Record`: immutable, keyword-only, and closed (an
unknown key is an error, so a misspelt setting can never be silently ignored).
"""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from orbit.core.files import read_file, write_atomic
from orbit.core.misspelt import hint
from orbit.errors import InputError

MAX_BYTES = 256 << 20
"""Of a file of data or evidence."""


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all data read from TOML or JSON, or written as evidence."""


def load_toml[T](path: Path, kind: type[T]) -> T:
    """Read ``path`` as TOML into ``kind``. Raises :class:`InputError` naming file, key and expected shape."""
    try:
        data = read_file(path, MAX_BYTES)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", fix="data files live in env/, kernels/, containers/") from None
    return convert(parse_toml(data, path), kind, str(path))


def parse_toml(data: bytes, path: Path, *, fix: str = "correct the syntax at the place named") -> dict[str, Any]:
    """The tables in ``data``; ``path`` names them in errors. Raises :class:`InputError`, for whatever is in it."""
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits, which are no TOMLDecodeError
        raise InputError(f"{path}: not valid TOML: {error}", fix=fix) from None


def load_json[T](path: Path, kind: type[T]) -> T:
    """Read ``path`` as JSON into ``kind``. Raises :class:`InputError` naming file, key and expected shape."""
    try:
        return msgspec.json.decode(read_file(path, MAX_BYTES), type=kind)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(
            f"{path}: {error}", fix="the file was cut short or written by another version: make it anew"
        ) from None


def convert[T](data: Any, kind: type[T], where: str) -> T:
    """Validate plain ``data`` (dicts, lists, scalars) as ``kind``; ``where`` names it in errors."""
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        meant = hint(kind, str(error))
        fix = "correct that key; unknown keys are refused on purpose" + (f"; {meant}" if meant else "")
        raise InputError(f"{where}: {error}", fix=fix) from None


def canonical(value: Any) -> bytes:
    """JSON bytes that are equal whenever the values are: sorted keys, no spaces. The input of every content key.

    The fields of a record are sorted, too: what was written to JSON and read back has the same bytes.
    """
    return msgspec.json.encode(value, order="sorted")


def compact_json(value: Any) -> bytes:
    """JSON on one line for programs: fields in the order of their record (``schema`` first), dictionaries sorted."""
    return msgspec.json.encode(value, order="deterministic")


def content_key(value: Any) -> str:
    """sha256 hex of :func:`canonical`: the identity of a set of inputs."""
    return hashlib.sha256(canonical(value)).hexdigest()


def indented_json(value: Any) -> bytes:
    """JSON as the files of Orbit have it: :func:`canonical`, indented, with a line end."""
    return msgspec.json.format(canonical(value), indent=2) + b"\n"


def dump_json(path: Path, value: Any) -> None:
    """Write ``value`` as :func:`indented_json`, atomically (a reader sees the old file or the new one, never half)."""
    write_atomic(path, indented_json(value))
