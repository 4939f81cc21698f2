"""A fingerprint for people, for logs and for checkpoints; and read back from what was written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from orbit.core.files import read_file
from orbit.core.records import MAX_BYTES, convert
from orbit.errors import InputError
from orbit.launch.fingerprint.compare import doubles
from orbit.launch.fingerprint.model import SCHEMA, Fingerprint

SHORT = 12
AGAIN = "orbit fingerprint --json writes one"


def short(one: Fingerprint) -> str:
    """Twelve digits that are the same on all nodes of a sound job: for every line of a log that needs them."""
    return one.agreed[:SHORT]


def line(one: Fingerprint) -> str:
    """One line for the beginning of a log and for a checkpoint's list: what ran, in short."""
    parts = [f"orbit fingerprint {short(one)}"]
    parts += [f"{name} {value.removeprefix('sha256:')[:SHORT]}" for name, value in
              (("image", one.image), ("environment", one.environment), ("lock", one.lock), ("orbit", one.orbit))
              if value]  # fmt: skip
    parts += [f"python {one.interpreter.split(' ')[0]}", f"glibc {one.glibc}"]
    parts += [f"{name} {version}" for name, version in one.versions.items()]
    if one.driver:
        parts.append(f"driver {one.driver}")
    parts += _devices(one)
    return "; ".join(parts)


def table(one: Fingerprint) -> Iterator[str]:
    """Lines for people: every field; of the libraries their number, and what is mapped twice."""
    yield f"{'fingerprint':<14}{short(one)}"
    for name in ("image", "environment", "lock", "kernels", "orbit", "interpreter", "glibc"):
        yield f"{name:<14}{getattr(one, name) or '-'}"
    yield f"{'driver':<14}{one.driver or '-'}"
    yield f"{'devices':<14}{', '.join(_devices(one)) or '-'}"
    for name, version in one.versions.items():
        yield f"{name:<14}{version}"
    if one.libraries:
        inside = sum(each.inside for each in one.libraries)
        stated = sum(each.stated for each in one.libraries)
        told = f", {stated} of them by RECORD" if stated else ""
        yield f"{'libraries':<14}{len(one.libraries)} mapped, {inside} of the environment{told}"
    else:
        yield f"{'libraries':<14}- (--loaded loads the stack and lists what is mapped)"
    for double in doubles(one):
        yield f"{'twice':<14}{double}"


def parse(data: bytes, where: str) -> Fingerprint:
    """A fingerprint from JSON: itself, or the report of a node's preflight that has one. Raises :class:`InputError`."""
    try:
        plain = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not valid JSON: {error}", fix=AGAIN) from None
    if isinstance(plain, dict) and "fingerprint" in plain:
        plain = plain["fingerprint"]
    if not isinstance(plain, dict) or plain.get("schema") != SCHEMA:
        raise InputError(f"{where}: no fingerprint of this version of orbit ({SCHEMA})", fix=AGAIN)
    return convert(plain, Fingerprint, where)


def load(path: Path) -> Fingerprint:
    """:func:`parse` of a file. Raises :class:`InputError`."""
    try:
        return parse(read_file(path, MAX_BYTES), str(path))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", fix=AGAIN) from None


def _devices(one: Fingerprint) -> list[str]:
    return [f"{count}x {name}" for name, count in Counter(one.devices).items()]
