"""The definition of a release, ``ci/gate.toml``: what has to be shown, by what evidence, and how fresh it must be.

The list of requirements is closed on both sides: one that the definition leaves out, and one that the code does not
know, both end the reading. So a release can never be had by taking a line out of the file.
"""

from __future__ import annotations

import datetime as dt
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import msgspec

from orbit.core.records import Record, load_toml
from orbit.errors import InputError
from orbit.release.attest.trust import Trust, TrustRule, load_trust

FILE = ("ci", "gate.toml")
SCHEMA = 1
NAMES = (
    "evidence",
    "lock",
    "kernels",
    "audit",
    "image-audit",
    "sbom",
    "smoke-cpu",
    "smoke-gpu",
    "qualification",
    "second-prefix",
    "clean-room",
    "waivers",
    "documents",
)
"""Every requirement, in the order of reports."""
MAY_BE_UNPROVEN = frozenset({"smoke-gpu"})
"""Only what needs a machine that not everybody has; every other gap is a refusal."""
ENGINES = frozenset({"docker", "podman"})
"""Container engines; other ways to start an image are no proof of how users will run it."""
FENCES = ("namespace", "proxy", "none")
"""How the clean room is kept from the network: see :mod:`orbit.release.gate.fence`."""

Days = Annotated[int, msgspec.Meta(ge=1, le=3650)]


class Requirement(Record, frozen=True, kw_only=True):
    """One thing that must be shown."""

    name: str
    """One of :data:`NAMES`."""
    text: str
    """What is shown, as a sentence that is true of a release."""
    reason: str
    """What went wrong, or would, without it."""
    max_age_days: Days
    """Evidence that is older shows nothing about today."""
    unproven: bool = False
    """Whether a release may say that this was not shown, on its first line. Only for :data:`MAY_BE_UNPROVEN`."""


class SmokePolicy(Record, frozen=True, kw_only=True):
    """``[smoke]``: in what the image has to be started."""

    engines: tuple[str, ...]
    real_ids: bool
    """User ids inside must have been the kernel's own, so that file modes were really tested."""


class SkipWaiver(Record, frozen=True, kw_only=True):
    """``[[waivers.skipped]]``: something that a run leaves out, and that a release may lack until a date."""

    stage: str
    """Stage of ``ship`` that says it skipped something."""
    what: tuple[str, ...]
    """Shell patterns over what it names."""
    profiles: tuple[str, ...]
    """Shell patterns over the profile's name."""
    reason: str
    expires: dt.date

    def covers(self, stage: str, what: str, profile: str) -> bool:
        """Whether it is about this part (its expiry is judged apart)."""
        named = any(fnmatchcase(what, pattern) for pattern in self.what)
        return stage == self.stage and named and any(fnmatchcase(profile, pattern) for pattern in self.profiles)


class WaiverPolicy(Record, frozen=True, kw_only=True):
    """``[waivers]``: how long anything may be waived, and the gate's own."""

    max_days: Days
    """No waiver may run longer from the day of the decision: what is accepted for years is no exception."""
    skipped: tuple[SkipWaiver, ...] = ()


class CleanRoomPolicy(Record, frozen=True, kw_only=True):
    """``[cleanroom]``: what gets into the room in which everything is built again."""

    environment: tuple[str, ...]
    """Variables of the caller that are passed on; every other one stays outside."""
    files: tuple[str, ...]
    """Shell patterns of files in the clone: the hosts they name may be contacted."""
    hosts: tuple[str, ...]
    """Further hosts; one that starts with a dot stands for everything below it."""
    host_apt: bool
    """Also the archives that the machine's apt is configured for (and ``ORBIT_DEBIAN``)."""
    fences: tuple[str, ...]
    """Kinds of fence a release accepts, of :data:`FENCES`."""


class Definition(Record, frozen=True, kw_only=True):
    """``ci/gate.toml``."""

    schema: int
    uids: tuple[Annotated[int, msgspec.Meta(ge=0)], ...]
    """Users as whom the image must work: audited and smoked for each."""
    clock_minutes: Annotated[int, msgspec.Meta(ge=0, le=1440)]
    """How far clocks of two machines may disagree; evidence from further in the future is refused."""
    requirements: tuple[Requirement, ...]
    smoke: SmokePolicy
    waivers: WaiverPolicy
    cleanroom: CleanRoomPolicy
    trust: tuple[TrustRule, ...] = ()
    """Who may sign which kind of evidence; key files are relative to ``ci/``."""

    def requirement(self, name: str) -> Requirement:
        """The requirement of that name."""
        return next(item for item in self.requirements if item.name == name)


def load_definition(root: Path) -> Definition:
    """Read and check ``ci/gate.toml`` of the checkout at ``root``. Raises :class:`InputError` naming key and fix."""
    path = root.joinpath(*FILE)
    definition = load_toml(path, Definition)
    if definition.schema != SCHEMA:
        raise InputError(
            f"{path}: schema {definition.schema} is not known", fix=f"this version of orbit reads {SCHEMA}"
        )
    _check_requirements(definition, path)
    if not definition.uids:
        raise InputError(f"{path}: uids is empty", fix="name the users as whom the image must work, e.g. [0, 65534]")
    _closed(path, "smoke.engines", definition.smoke.engines, ENGINES)
    _closed(path, "cleanroom.fences", definition.cleanroom.fences, frozenset(FENCES))
    return definition


def trust_of(definition: Definition, root: Path) -> Trust:
    """The keys and identities of ``[[trust]]``, read. Raises :class:`InputError` naming the row that cannot be."""
    return load_trust(definition.trust, root / FILE[0], clock_tolerance_s=60 * definition.clock_minutes)


def _check_requirements(definition: Definition, path: Path) -> None:
    names = [item.name for item in definition.requirements]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"{path}: requirements named twice: {', '.join(twice)}", fix="keep one of each")
    if strange := sorted(set(names) - set(NAMES)):
        raise InputError(f"{path}: unknown requirements: {', '.join(strange)}", fix=f"known: {', '.join(NAMES)}")
    if lacking := [name for name in NAMES if name not in names]:
        raise InputError(
            f"{path}: requirements without an entry: {', '.join(lacking)}",
            fix="every requirement stands in the file with its reason; none can be left out",
        )
    if loose := [item.name for item in definition.requirements if item.unproven and item.name not in MAY_BE_UNPROVEN]:
        raise InputError(
            f"{path}: unproven = true of {', '.join(loose)}",
            fix=f"only {', '.join(sorted(MAY_BE_UNPROVEN))} may be unproven",
        )


def _closed(path: Path, key: str, found: tuple[str, ...], known: frozenset[str]) -> None:
    if not found or not set(found) <= known:
        raise InputError(f"{path}: {key} = {list(found)}", fix=f"one or more of: {', '.join(sorted(known))}")
