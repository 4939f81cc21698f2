"""Statements, keys and trust made for tests: every key is made here and forgotten with the test."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from orbit.errors import OrbitError
from orbit.release.attest.dsse import Envelope
from orbit.release.attest.signers import LocalSigner, sign_statement
from orbit.release.attest.statement import SMOKE, Statement, make_statement
from orbit.release.attest.trust import Believed, Trust

IMAGE = "sha256:" + "9f" * 32
OTHER_IMAGE = "sha256:" + "10" * 32
NOW = dt.datetime(2026, 11, 30, 21, 0, tzinfo=dt.UTC)
MADE = "2026-11-30T20:00:00+00:00"


def signer() -> LocalSigner:
    """A new key."""
    return LocalSigner(Ed25519PrivateKey.generate())


def statement(predicate_type: str = SMOKE, image: str = IMAGE, **predicate: Any) -> Statement:
    """A statement that is fine."""
    return make_statement("orbit/probe", image, predicate_type, {"started": MADE, "passed": True, **predicate})


def believed(name: str, who: LocalSigner, *may_sign: str, until: dt.datetime | None = None) -> Believed:
    """A row of the trust for a key."""
    return Believed(name=name, may_sign=frozenset(may_sign or (SMOKE,)), key=who.key.public_key(), until=until)


def trust(*signers: Believed, tolerance_s: int = 300) -> Trust:
    """Trust in these."""
    return Trust(signers=signers, clock_tolerance_s=tolerance_s)


def signed(who: LocalSigner, **changes: Any) -> Envelope:
    """A fine statement, signed."""
    return sign_statement(statement(**changes), who)


def attempt[T](work: Callable[[], T]) -> T | OrbitError:
    """What ``work`` gives, or the sentence it ends with; any other exception passes."""
    try:
        return work()
    except OrbitError as error:
        return error
