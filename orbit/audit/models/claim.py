"""What an environment of Orbit says of itself (``share/orbit/environment.json``), read as a claim to be judged.

The file is written by ``orbit env create``. Here it comes from anywhere: keys that are not known are ignored, and a
file that cannot be read is a reason, not an exception.
"""

from __future__ import annotations

import functools

import msgspec

from orbit.audit.facts import Environment, join
from orbit.audit.known.policy import Policy
from orbit.core.files import sha256_file
from orbit.core.paths import data_root
from orbit.errors import InputError, MissingError
from orbit.profile.lock import Lock, read_lock
from orbit.profile.model import load_profile, profile_names
from orbit.profile.place import lock_path
from orbit.profile.policy import Policy as LockPolicy
from orbit.profile.policy import load_policy

RECORD = "share/orbit/environment.json"


class ClaimedDist(msgspec.Struct, frozen=True):
    """One distribution that was installed."""

    name: str
    version: str
    origin: str = ""
    """``index`` or ``wheelhouse``."""
    wheel: str = ""
    sha256: str = ""


class ClaimedSkip(msgspec.Struct, frozen=True):
    """Something of the lock that was left out."""

    what: str
    reason: str = ""


class Claim(msgspec.Struct, frozen=True):
    """The parts of the record that rules compare."""

    profile: str
    lock: str
    """sha256 of uv.lock."""
    python: str = ""
    distributions: tuple[ClaimedDist, ...] = ()
    skipped: tuple[ClaimedSkip, ...] = ()

    def skip_of(self, name: str) -> ClaimedSkip | None:
        """The entry that says why ``name`` was left out."""
        return next((entry for entry in self.skipped if entry.what == name), None)


def claim_of(env: Environment) -> Claim | None:
    """What the target says of itself; None when it says nothing or nothing readable (see :func:`claim_problem`)."""
    text = env.texts.get(join(env.layout.home, RECORD))
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=Claim)
    except (msgspec.DecodeError, RecursionError):
        return None


def claim_problem(env: Environment) -> str:
    """Why the record is not readable; empty when it is, or when there is none."""
    text = env.texts.get(join(env.layout.home, RECORD))
    if text is None:
        return ""
    try:
        msgspec.json.decode(text, type=Claim)
    except (msgspec.DecodeError, RecursionError) as error:
        return str(error)
    return ""


def is_of_profile(env: Environment, policy: Policy) -> bool:
    """Whether the target claims to be, or is said by the caller to be, an installation of this profile's lock."""
    claim = claim_of(env)
    return policy.lock is not None or (claim is not None and claim.profile == policy.profile.name)


def lock_of(env: Environment, policy: Policy) -> Lock | None:
    """The lock to compare with: the one the caller gave, else that of the checkout which the target names by hash."""
    if policy.lock is not None:
        return policy.lock
    claim = claim_of(env)
    return _checkout_lock(claim.lock) if claim else None


def lock_policy(policy: Policy) -> LockPolicy | None:
    """The lock policy of the profile that is judged; None when it cannot be read (``orbit lock check`` says why)."""
    return _lock_policy(policy.profile.policies)


@functools.cache
def _lock_policy(names: tuple[str, ...]) -> LockPolicy | None:
    try:
        return load_policy(data_root(), names)
    except InputError:
        return None


@functools.cache
def _checkout_lock(sha256: str) -> Lock | None:
    """The lock with that hash, among those of all profiles."""
    try:
        paths = dict.fromkeys(lock_path(load_profile(name), data_root()) for name in profile_names())
        found = next((path for path in paths if path.is_file() and sha256_file(path) == sha256), None)
        return read_lock(found) if found else None
    except (OSError, InputError, MissingError):
        return None
