"""Which files slimming may touch at all: ``kernels/slim.toml``.

Two lists. ``[[forbidden]]`` names files whose licence does not allow a changed copy, with the clause. ``[[proved]]``
names files of which it was shown on hardware that they give bit-equal results when slimmed; every other file is left
alone unless the policy says otherwise.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Literal

from orbit.audit.known.knowledge import matcher, plain_name
from orbit.core.paths import data_file
from orbit.core.records import Record, load_toml
from orbit.errors import InputError
from orbit.profile.model import SlimPolicy

MIN_WORDS = 4


class Forbidden(Record, frozen=True, kw_only=True):
    """Files that must not be changed."""

    distributions: tuple[str, ...] = ()
    """Shell patterns over the normalised name of the distribution that owns the file."""
    names: tuple[str, ...] = ()
    """Shell patterns over the file's name without a private copy's hash (``libnvjpeg.36e11081.so.13``)."""
    clause: str
    """Where the licence says so."""
    reason: str


class Proved(Record, frozen=True, kw_only=True):
    """Files that were compared before and after on hardware."""

    files: tuple[str, ...]
    """Shell patterns, relative to site-packages."""
    layout: Literal["holes", "shrink"]
    """The layout that was run; ``shrink`` proves ``holes`` as well."""
    by: str
    """What was run, on what, and what came out."""


class SlimRules(Record, frozen=True, kw_only=True):
    """All of ``kernels/slim.toml``."""

    schema: int
    forbidden: tuple[Forbidden, ...] = ()
    proved: tuple[Proved, ...] = ()

    def forbids(self, path: str, distribution: str) -> Forbidden | None:
        """The entry that says why a file must not be changed; None when none does."""
        name = plain_name(path.rpartition("/")[2])
        return next(
            (
                item
                for item in self.forbidden
                if (distribution and matcher(item.distributions)(distribution)) or matcher(item.names)(name)
            ),
            None,
        )

    def proof(self, path: str) -> Proved | None:
        """The entry that says how a file was proved; None when it was not."""
        return next((item for item in self.proved if matcher(item.files)(path)), None)


@functools.cache
def rules() -> SlimRules:
    """The shipped data. Raises :class:`InputError` naming file and entry."""
    return load_rules(data_file("kernels", "slim.toml"))


def load_rules(path: Path) -> SlimRules:
    """Read and check one such file."""
    found = load_toml(path, SlimRules)
    if found.schema != 1:
        raise InputError(f"{path}: schema {found.schema} is not known", fix="this version of orbit reads schema 1")
    for item in found.forbidden:
        if not item.distributions and not item.names:
            raise InputError(f"{path}: forbidden {item.clause!r} names nothing", fix="give distributions or names")
    said = [*(item.reason for item in found.forbidden), *(item.by for item in found.proved)]
    for text in said:
        if len(text.split()) < MIN_WORDS:
            raise InputError(f"{path}: {text!r} explains nothing", fix="write why this is so, for the next reader")
    return found


def hands_off(path: str, distribution: str, policy: SlimPolicy, known: SlimRules | None = None) -> str:
    """Why the file at ``path`` (relative to site-packages) is not to be touched; empty when it may be."""
    known = known or rules()
    forbidden = known.forbids(path, distribution)
    if forbidden is not None and not policy.licensed:
        return f"licence: {forbidden.clause}: {forbidden.reason}"
    if not policy.unproved and known.proof(path) is None:
        return "not proved on hardware: no [[proved]] entry of kernels/slim.toml names it"
    return ""
