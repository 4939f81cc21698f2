"""The general knowledge of the integrity rules: ``kernels/expectations/artifacts.toml``. Not a rule.

It holds for every environment, whatever its profile: what a distribution must contain, which programs must be
executable, which files without an owner and which doubled names are harmless, and why.
"""

from __future__ import annotations

import functools

from orbit.core.paths import data_file
from orbit.core.records import Record, load_toml
from orbit.errors import InputError


class Artifact(Record, frozen=True, kw_only=True):
    """A file that a distribution is worth little without."""

    dist: str
    """Normalised name; several spellings of one project are separated by a space."""
    files: tuple[str, ...]
    """Shell patterns relative to site-packages; ``*`` does not cross ``/``. One of them has to match."""
    count: int = 1
    """So many files must match."""
    min_bytes: int = 0
    """The largest match has at least this size: smaller ones are built without the part that matters."""
    platform: bool = False
    """The wheel must be a platform wheel: a pure one was built without the extension."""
    only_with: str = ""
    """Judged only when this distribution is there as well."""
    when: tuple[str, ...] = ()
    """Judged only when a file of one of these patterns is there."""
    symptom: str
    """What people see without it."""


class Known(Record, frozen=True, kw_only=True):
    """Something that looks wrong and is not."""

    files: tuple[str, ...] = ()
    """Shell patterns relative to site-packages."""
    modules: tuple[str, ...] = ()
    """Top-level import names."""
    dists: tuple[str, ...] = ()
    """Only when it belongs to one of these; empty: whoever owns it."""
    reason: str


class KnownFeature(Record, frozen=True, kw_only=True):
    """Files whose kernels are written in instructions of one capability."""

    files: tuple[str, ...]
    capability: str
    reason: str


class Artifacts(Record, frozen=True, kw_only=True):
    """All of ``artifacts.toml``."""

    schema: int
    programs: tuple[str, ...]
    """Files that are executed at run time (shell patterns over ``/`` + path)."""
    caches: tuple[str, ...]
    """Folders that installers link into and clean: parts of absolute paths."""
    hosts: tuple[str, ...]
    """Beginnings or parts of paths that belong to one machine or one user."""
    artifacts: tuple[Artifact, ...]
    features: tuple[KnownFeature, ...]
    unowned: tuple[Known, ...]
    """Files without an owner that are right."""
    shadows: tuple[Known, ...]
    """Names with two providers, or of the standard library, that do no harm."""


@functools.cache
def artifacts() -> Artifacts:
    """The shipped file. Raises :class:`InputError` naming file and key when it is wrong."""
    path = data_file("kernels", "expectations", "artifacts.toml")
    found = load_toml(path, Artifacts)
    if found.schema != 1:
        raise InputError(f"{path}: schema {found.schema} is not known", fix="this version of orbit reads schema 1")
    for entry in (*found.unowned, *found.shadows):
        if len(entry.reason.split()) < 4:
            raise InputError(f"{path}: reason {entry.reason!r} explains nothing", fix="write why it does no harm")
    return found
