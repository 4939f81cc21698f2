"""What a lock must satisfy, as data. The rules that read it are in ``rules.py``.

``env/lock-policy.toml`` holds for every lock; a profile names files of ``env/lock-policies`` with what is true of its
lock only: its CUDA release, the versions that work together, the reason of every held version.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from orbit.core.records import Record, load_toml
from orbit.errors import InputError

FILE = ("env", "lock-policy.toml")
FOLDER = ("env", "lock-policies")
COMMIT = re.compile(r"^[0-9a-f]{40}$")
RELEASE = re.compile(r"^\d+\.\d+$")

SourceKind = Literal["registry", "git", "workspace", "forbidden"]


class SourceRule(Record, frozen=True, kw_only=True):
    """Where a package must come from, for names that are easily got from the wrong place."""

    name: str
    source: SourceKind
    """``registry``: the index of all others; ``git``: exactly ``url`` at ``commit``; ``workspace``: this checkout;
    ``forbidden``: must not be in the lock at all."""
    url: str = ""
    commit: str = ""
    version: str = ""
    """Allowed versions as a PEP 440 specifier; empty allows every version."""
    reason: str


class Component(Record, frozen=True, kw_only=True):
    """Packages that belong to (or are declared independent of) a CUDA release."""

    names: tuple[str, ...]
    version: str = ""
    """Allowed versions as a PEP 440 specifier, e.g. ``==13.0.*``; empty: any version is right, for ``reason``."""
    reason: str


class CudaRelease(Record, frozen=True, kw_only=True):
    """What may be installed beside one CUDA release."""

    release: str
    """``major.minor``, as in a profile's ``cuda``."""
    watch: tuple[str, ...]
    """Shell patterns of package names; one that matches and is in no component is a finding."""
    components: tuple[Component, ...]

    def component(self, name: str) -> Component | None:
        """The component entry that lists ``name``."""
        return next((component for component in self.components if name in component.names), None)

    def watches(self, name: str) -> bool:
        """Whether ``name`` looks like something of CUDA."""
        return any(fnmatchcase(name, pattern) for pattern in self.watch)


class Family(Record, frozen=True, kw_only=True):
    """Packages that work only in matching versions."""

    name: str
    members: tuple[str, ...]
    """Names or shell patterns."""
    equal: bool = True
    """All members that are present have one version."""
    complete: bool = False
    """All members are present, or none."""
    combinations: tuple[dict[str, str], ...] = ()
    """With ``equal = false``: the version combinations known to work; the members present must be part of one."""
    reason: str

    def matches(self, name: str) -> bool:
        """Whether ``name`` is a member."""
        return any(fnmatchcase(name, member) for member in self.members)


class Pin(Record, frozen=True, kw_only=True):
    """Why a version is held: by an override, or by an upper bound in pyproject.toml."""

    name: str
    reason: str


class SdistRule(Record, frozen=True, kw_only=True):
    """A package without a usable wheel that may be built while installing, without a recipe."""

    name: str
    reason: str


class Policy(Record, frozen=True, kw_only=True):
    """One file, or all files of a profile together."""

    schema: int
    settings: tuple[str, ...] = ()
    """Keys of ``[tool.uv]`` that are part of the lock; uv run by Orbit reads no others (see ``lock-setting``)."""
    sources: tuple[SourceRule, ...] = ()
    cuda: tuple[CudaRelease, ...] = ()
    families: tuple[Family, ...] = ()
    pins: tuple[Pin, ...] = ()
    sdists: tuple[SdistRule, ...] = ()

    def release(self, release: str) -> CudaRelease | None:
        """The table of one CUDA release."""
        return next((table for table in self.cuda if table.release == release), None)

    def pin(self, name: str) -> Pin | None:
        """The reason why ``name`` is held."""
        return next((pin for pin in self.pins if pin.name == name), None)

    def source(self, name: str) -> SourceRule | None:
        """The source rule of ``name``."""
        return next((rule for rule in self.sources if rule.name == name), None)


def own_file(names: tuple[str, ...]) -> str:
    """The file, as people name it, that entries about one lock belong into: the last of ``names``."""
    return "/".join((*FOLDER, names[-1])) if names else "/".join(FILE)


def load_policy(root: Path, names: tuple[str, ...] = ()) -> Policy:
    """``env/lock-policy.toml`` under ``root`` and the files ``names`` of ``env/lock-policies``, checked, as one.

    Raises :class:`InputError` naming file and entry at fault; what two files say twice is one.
    """
    paths = [root.joinpath(*FILE), *(root.joinpath(*FOLDER, name) for name in names)]
    whole = Policy(schema=1)
    for path in paths:
        part = load_toml(path, Policy)
        if part.schema != 1:
            raise InputError(f"{path}: schema {part.schema} is not known", fix="this version of orbit reads schema 1")
        whole = Policy(
            schema=1,
            settings=(*whole.settings, *part.settings),
            sources=(*whole.sources, *part.sources),
            cuda=(*whole.cuda, *part.cuda),
            families=(*whole.families, *part.families),
            pins=(*whole.pins, *part.pins),
            sdists=(*whole.sdists, *part.sdists),
        )
        _check_part(path, part, whole)
    return whole


def _check_part(path: Path, part: Policy, whole: Policy) -> None:
    """Each entry of ``part`` by itself, and that ``whole``, up to and with it, says nothing twice."""
    for what, names in (
        ("settings", list(whole.settings)),
        ("sources", [rule.name for rule in whole.sources]),
        ("pins", [pin.name for pin in whole.pins]),
        ("sdists", [rule.name for rule in whole.sdists]),
        ("families", [family.name for family in whole.families]),
        ("cuda", [table.release for table in whole.cuda]),
        *((f"cuda {t.release}", [name for c in t.components for name in c.names]) for t in part.cuda),
    ):
        _require_unique(path, what, names)
    for rule in part.sources:
        _check_source(path, rule)
    for table in part.cuda:
        if not RELEASE.match(table.release):
            raise InputError(f"{path}: cuda release {table.release!r}", fix='write it as "13.0"')
        for component in table.components:
            where = f"cuda {table.release}, component {', '.join(component.names)}"
            _check_entry(path, where, component.names, component.version, component.reason)
    for family in part.families:
        _check_family(path, family)
    for pin in part.pins:
        _check_entry(path, f"pin {pin.name}", (pin.name,), "", pin.reason)
    for sdist in part.sdists:
        _check_entry(path, f"sdist {sdist.name}", (sdist.name,), "", sdist.reason)


def _check_source(path: Path, rule: SourceRule) -> None:
    where = f"source {rule.name}"
    _check_entry(path, where, (rule.name,), rule.version, rule.reason)
    is_git = rule.source == "git"
    if is_git != bool(rule.url and rule.commit):
        raise InputError(
            f"{path}: {where}: a git source has url and commit, and only a git source has them",
            fix="add both, or remove both",
        )
    if is_git and not COMMIT.match(rule.commit):
        raise InputError(f"{path}: {where}: commit {rule.commit!r}", fix="write all 40 hexadecimal digits")


def _check_family(path: Path, family: Family) -> None:
    where = f"family {family.name}"
    _check_entry(path, where, (), "", family.reason)
    if not family.members:
        raise InputError(f"{path}: {where}: no members", fix="name at least two packages")
    if family.equal == bool(family.combinations):
        raise InputError(
            f"{path}: {where}: either equal = true, or equal = false with combinations", fix="choose one of the two"
        )
    strangers = sorted({name for row in family.combinations for name in row} - set(family.members))
    if strangers:
        raise InputError(f"{path}: {where}: combination names {strangers}", fix="list them as members too")
    if family.complete and any("*" in member for member in family.members):
        raise InputError(f"{path}: {where}: complete needs full names", fix="write the members without *")


def _check_entry(path: Path, where: str, names: tuple[str, ...], version: str, reason: str) -> None:
    for name in names:
        if canonicalize_name(name) != name:
            raise InputError(f"{path}: {where}: name {name!r}", fix=f"write it as {canonicalize_name(name)!r}")
    if not reason.strip():
        raise InputError(f"{path}: {where}: the reason is empty", fix="say why, for the person who meets it next")
    try:
        SpecifierSet(version)
    except InvalidSpecifier:
        raise InputError(f"{path}: {where}: version {version!r}", fix='write a specifier such as "==13.0.*"') from None


def _require_unique(path: Path, what: str, names: list[str]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(f"{path}: {what}: {', '.join(repeated)} listed twice", fix="keep one of them")
