"""Settings of a recording from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from orbit.errors import InputError
from orbit.qualify.records import Settings


def settings_of(texts: Sequence[str]) -> Settings:
    """Settings from ``NAME=VALUE`` texts. Raises :class:`InputError`."""
    values: dict[str, Any] = {}
    for text in texts:
        name, found, value = text.partition("=")
        if not found:
            raise InputError(f"--set {text}: no value", fix="write NAME=VALUE, for example --set tf32=true")
        values[name] = value
    unknown = sorted(set(values) - set(Settings.__struct_fields__))
    if unknown:
        known = ", ".join(Settings.__struct_fields__)
        raise InputError(f"--set {unknown[0]}: no such setting", fix=f"known: {known}")
    try:
        return msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(f"--set: {error}", fix="true or false, a number, or a name it allows") from None
