"""What Orbit knows about licences, as data: ``env/licenses.toml``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from orbit.core.paths import data_file
from orbit.core.records import Record, load_toml
from orbit.errors import InputError
from orbit.release.sbom.expressions import canonical_expression, weigh

FILE = "licenses.toml"
SCHEMA = 1
SHA256 = re.compile(r"^[0-9a-f]{64}$")
UNKNOWN = "unknown"
BLANKS = re.compile(r"\s+")


class Group(Record, frozen=True, kw_only=True):
    """Licences that ask the same of who passes the image on."""

    name: str
    title: str
    asks: str
    """What they ask, in a sentence."""
    ids: tuple[str, ...]
    """SPDX ids, with exceptions where they matter; ``X*`` stands for every id that begins so."""


class KnownText(Record, frozen=True, kw_only=True):
    """A licence file somebody read: its bytes name a licence wherever they are found."""

    sha256: str
    spdx: str
    what: str
    """Whose file it was."""


class Reviewed(Record, frozen=True, kw_only=True):
    """A conclusion of a person about a distribution whose metadata does not say enough, or contradicts itself."""

    name: str
    version: str
    """It holds for this version alone."""
    spdx: str
    reason: str


class Document(Record, frozen=True, kw_only=True):
    """``env/licenses.toml``."""

    schema: int
    denied: tuple[str, ...]
    """SPDX ids no image may hold; ``X*`` as in groups."""
    groups: tuple[Group, ...]
    """The lightest first."""
    names: dict[str, tuple[str, ...]]
    """What people write in ``License`` -> what it may mean; one SPDX expression is a meaning, more are none."""
    classifiers: dict[str, tuple[str, ...]]
    """The same for classifiers, without ``License ::``."""
    debian: dict[str, str]
    """Short name in a Debian copyright file -> SPDX id."""
    texts: tuple[KnownText, ...] = ()
    reviewed: tuple[Reviewed, ...] = ()


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The same, to be asked."""

    groups: tuple[Group, ...]
    denied: tuple[str, ...]
    names: Mapping[str, tuple[str, ...]]
    classifiers: Mapping[str, tuple[str, ...]]
    debian: Mapping[str, str]
    texts: Mapping[str, str]
    """SPDX id by sha256 of a file."""
    reviewed: Mapping[tuple[str, str], str]

    def may_mean(self, name: str) -> tuple[str, ...]:
        """What ``name`` may mean; empty when nobody wrote it down and it is no SPDX expression."""
        if expression := canonical_expression(name):
            return (expression,)
        return self.names.get(_key(name), ())

    def group_of(self, licence: str) -> str:
        """The group of one licence; :data:`UNKNOWN` when it is in none."""
        plain = licence.partition(" WITH ")[0]
        for name in (licence, plain):
            for group in self.groups:
                if _listed(name, group.ids):
                    return group.name
        return UNKNOWN

    def group(self, expression: str) -> str:
        """The group of an expression: what the best choice in it asks. Empty is unknown."""
        order = [group.name for group in self.groups] + [UNKNOWN]
        return order[weigh(expression, lambda licence: order.index(self.group_of(licence)))] if expression else UNKNOWN

    def is_denied(self, expression: str) -> bool:
        """Whether there is no way to use it without a licence that is denied."""
        return bool(expression) and bool(weigh(expression, lambda licence: int(_listed(licence, self.denied))))


def _listed(licence: str, ids: Iterable[str]) -> bool:
    return any(licence.startswith(item[:-1]) if item.endswith("*") else licence == item for item in ids)


def _key(name: str) -> str:
    return BLANKS.sub(" ", name.strip().lower())


@cache
def knowledge() -> Knowledge:
    """The knowledge of this checkout. Raises :class:`InputError` for a damaged file."""
    path = data_file("env", FILE)
    found = load_toml(path, Document)
    if found.schema != SCHEMA:
        raise InputError(f"{path}: schema {found.schema} is not known", fix=f"this version of orbit reads {SCHEMA}")
    meanings = [*found.names.items(), *found.classifiers.items()]
    stated = [
        *((f"{name!r}", item) for name, items in meanings for item in items),
        *((f"debian {name!r}", item) for name, item in found.debian.items()),
        *((f"text {known.sha256}", known.spdx) for known in found.texts),
        *((f"reviewed {known.name}", known.spdx) for known in found.reviewed),
    ]
    for where, text in stated:
        if canonical_expression(text) != text:
            raise InputError(f"{path}: {where}: {text!r} is no SPDX expression", fix="write it as SPDX's list does")
    for item in found.texts:
        if not SHA256.fullmatch(item.sha256):
            raise InputError(f"{path}: {item.what}: {item.sha256!r} is no sha256", fix="write 64 hexadecimal digits")
    return Knowledge(
        groups=found.groups,
        denied=found.denied,
        names={_key(name): meaning for name, meaning in found.names.items()},
        classifiers=found.classifiers,
        debian={name.lower(): spdx for name, spdx in found.debian.items()},
        texts={text.sha256: text.spdx for text in found.texts},
        reviewed={(item.name, item.version): item.spdx for item in found.reviewed},
    )
