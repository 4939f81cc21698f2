"""Writes the two sides of a comparison for the tests of this folder."""

from __future__ import annotations

from typing import Any

from orbit.core.paths import checkout_root
from orbit.profile.diff.compare import compare
from orbit.profile.diff.consequences import COMPUTED
from orbit.profile.diff.records import Change, Consequence, LockDiff
from orbit.profile.diff.rules import Rules, load_rules
from orbit.profile.diff.view import GapFact, RecipeFact, View
from tests.profile.locks import lock_of, package, profile_of, wheel

LINUX = "cp312-cp312-manylinux_2_28_x86_64"
TARGET = {"name": "h100", "devices": [], "capability": "9.0", "sass": "sm_90", "feature": "sm_90a"}


def rules() -> Rules:
    """Those that are shipped."""
    return load_rules(checkout_root(), frozenset(COMPUTED))


def pure(name: str, version: str = "1.0", **options: Any) -> str:
    """A package of Python files."""
    return package(name, version, **options)


def binary(
    name: str, version: str = "1.0", *, digest: str = "", size: int = 1000, tag: str = LINUX, **more: Any
) -> str:
    """A package with one wheel for Linux; its bytes follow from name and version, or are ``digest``."""
    number = digest or f"{abs(hash((name, version))):064x}"[:64]
    return package(name, version, wheels=[wheel(name, version, tag, f"sha256:{number}", size)], **more)


def view(
    *packages: str,
    label: str = "x",
    recipes: tuple[RecipeFact, ...] = (),
    gaps: tuple[GapFact, ...] = (),
    targets: tuple[dict[str, Any], ...] = (TARGET,),
    toolkit: str = "lock",
    cuda: tuple[str, ...] = (),
    **lock: Any,
) -> View:
    """A lock whose extra ``stack`` needs all ``packages`` but those of the group ``cuda``."""
    names = [text.split('"')[1] for text in packages]
    found = lock_of(*packages, stack=[name for name in names if name not in cuda], cuda=cuda, **lock)
    return View(label, found, profile_of(targets=list(targets), toolkit=toolkit), recipes, gaps)


def diff(a: View, b: View) -> LockDiff:
    """By the rules that are shipped."""
    return compare(a, b, rules())


def kinds(found: LockDiff) -> dict[str, str]:
    """Name -> kind of change."""
    return {change.name: change.kind for change in found.changes}


def change(found: LockDiff, name: str) -> Change:
    """The change called ``name``."""
    return next(each for each in found.changes if each.name == name)


def follows(found: LockDiff, id_: str) -> Consequence | None:
    """The consequence ``id_``, if it follows."""
    return next((each for each in found.consequences if each.id == id_), None)
