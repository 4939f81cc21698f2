"""Whom to believe what: which key, or which identity, may sign which kind of statement; and whether it did.

As data (in ``ci/gate.toml``, or a file of its own, see :class:`TrustFile`)::

    [[trust]]
    name = "gpu-lab"
    key = "keys/gpu-lab.pub"                     # beside this file
    may_sign = ["smoke", "qualification"]

    [[trust]]
    name = "release-workflow"
    identity = "https://github.com/ORG/REPO/.github/workflows/release.yml@refs/heads/main"
    issuer = "https://token.actions.githubusercontent.com"
    may_sign = ["provenance", "release"]

Nothing but a signature that was checked decides: neither the keyid in an envelope nor what a payload says of itself.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from orbit.core.records import Record, load_toml
from orbit.errors import CheckFailed, InputError
from orbit.release.attest import sigstore_library
from orbit.release.attest.dsse import Envelope, pae
from orbit.release.attest.keys import keyid_of, load_public
from orbit.release.attest.sigstore_library import Identity
from orbit.release.attest.statement import (
    PAYLOAD_TYPE,
    PREDICATES,
    QUALIFICATION,
    SMOKE,
    Statement,
    parse_statement,
    parse_time,
    times_of,
)

CLOCK_TOLERANCE_S = 300
"""How far ahead the clock of another machine may be, when the trust says nothing else."""
MUST_BE_DATED = frozenset({SMOKE, QUALIFICATION})
"""What is made on machines that the gate does not see: without a time nobody can say whether it is old."""
SHORT = {value: name for name, value in PREDICATES.items()}


class TrustRule(Record, frozen=True, kw_only=True):
    """One row ``[[trust]]``: a key (``key``, a file; ``keyid`` beside it) or an identity (``identity``, ``issuer``)."""

    name: str
    """What people call the signer; shown in reports."""
    may_sign: tuple[str, ...]
    """Short names of predicates, see :data:`orbit.release.attest.statement.PREDICATES`."""
    key: str = ""
    """Public key, a file relative to the one this stands in."""
    keyid: str = ""
    """Id that the key must have; may be left out."""
    identity: str = ""
    issuer: str = ""
    until: str = ""
    """Moment (ISO 8601 with zone) after which nothing it signs counts; empty: no such moment."""


class TrustFile(Record, frozen=True, kw_only=True):
    """A file of trust on its own, TOML."""

    schema: int = 1
    clock_tolerance_s: int = CLOCK_TOLERANCE_S
    trusted_root: str = ""
    """A file trusted_root.json of sigstore, relative to this one; empty: the one inside the library."""
    trust: tuple[TrustRule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Believed:
    """One signer, ready to be checked against."""

    name: str
    may_sign: frozenset[str]
    """Predicate types."""
    key: Ed25519PublicKey | None = None
    identity: Identity | None = None
    until: dt.datetime | None = None

    @property
    def keyid(self) -> str:
        """Id of the key; empty for an identity."""
        return keyid_of(self.key) if self.key is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Everybody who is believed anything."""

    signers: tuple[Believed, ...] = ()
    clock_tolerance_s: int = CLOCK_TOLERANCE_S
    """Seconds that a statement may be dated in the future."""
    trusted_root: Path | None = None
    """sigstore's trusted root; None: the one inside the library."""


class Cause(StrEnum):
    """Why a statement is not believed."""

    PAYLOAD_TYPE = "payload-type"
    NOBODY_TRUSTED = "nobody-trusted"
    BAD_SIGNATURE = "bad-signature"
    UNKNOWN_KEY = "unknown-key"
    MALFORMED = "malformed"
    OTHER_PREDICATE = "other-predicate"
    MAY_NOT_SIGN = "may-not-sign"
    NO_LONGER = "no-longer-trusted"
    OTHER_IMAGE = "other-image"
    FUTURE = "future"
    UNDATED = "undated"


class NotBelieved(CheckFailed):
    """A statement that does not count: ``cause`` for programs, the sentence for people."""

    def __init__(self, cause: Cause, what: str, *, fix: str) -> None:
        super().__init__(what, fix=fix)
        self.cause = cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A statement that counts, and why."""

    statement: Statement
    signer: str
    """Name of the row of the trust."""
    keyid: str
    """Id of the key that signed; empty for an identity."""
    identity: str
    """sigstore identity that signed; empty for a key."""
    made: dt.datetime | None
    """The newest moment that the predicate names; None when it names none."""
    ignored: tuple[str, ...] = ()
    """A sentence for each further signature that proves nothing here."""


@dataclass(frozen=True, slots=True)
class _Checked:
    """What the signatures of an envelope are worth."""

    signers: tuple[Believed, ...] = ()
    failures: tuple[tuple[Cause, str], ...] = field(default=())


def load_trust(
    rules: Sequence[TrustRule],
    folder: Path,
    *,
    clock_tolerance_s: int = CLOCK_TOLERANCE_S,
    trusted_root: str = "",
) -> Trust:
    """The trust that ``rules`` mean; files are relative to ``folder``.

    Raises :class:`InputError` naming the row for one that trusts nobody or nothing, an unknown predicate, a key that
    is none or has another id, and a name or a key that stands twice.
    """
    if clock_tolerance_s < 0:
        raise InputError(f"clock_tolerance_s = {clock_tolerance_s}", fix="seconds, 0 or more")
    signers = tuple(_believed(rule, folder) for rule in rules)
    for what, values in (
        ("name", [signer.name for signer in signers]),
        ("key", [signer.keyid for signer in signers if signer.keyid]),
    ):
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            raise InputError(f"trust: the {what} {twice[0]} stands in two rows", fix="one row for each signer")
    root = folder / trusted_root if trusted_root else None
    return Trust(signers=signers, clock_tolerance_s=clock_tolerance_s, trusted_root=root)


def read_trust(path: Path) -> Trust:
    """Read a :class:`TrustFile`. Raises :class:`InputError` naming file and row."""
    read = load_toml(path, TrustFile)
    if read.schema != 1:
        raise InputError(f"{path}: schema {read.schema} is not known", fix="this version of orbit reads schema 1")
    return load_trust(read.trust, path.parent, clock_tolerance_s=read.clock_tolerance_s, trusted_root=read.trusted_root)


def verify(
    envelope: Envelope,
    trust: Trust,
    *,
    predicate_type: str,
    subject_digest: str,
    now: dt.datetime,
    where: str = "the attestation",
) -> Verified:
    """The statement in ``envelope``, when somebody who may say it signed it and it is about this image.

    ``subject_digest`` is the manifest's, ``sha256:...``. ``where`` names the envelope in errors. With several
    signatures one that counts is enough. The payload is not looked at before a signature over it holds.

    Raises :class:`NotBelieved`, with a sentence of its own for every reason; :class:`MissingError` for a sigstore
    bundle where the library, or its trusted root, is not there.
    """
    if envelope.payload_type != PAYLOAD_TYPE:
        raise NotBelieved(
            Cause.PAYLOAD_TYPE,
            f"{where}: its payload is {envelope.payload_type!r}, not a statement ({PAYLOAD_TYPE})",
            fix="give what `orbit gate attest` wrote",
        )
    if not trust.signers:
        raise NotBelieved(
            Cause.NOBODY_TRUSTED,
            f"{where}: no key is trusted, so no signature proves anything",
            fix="add the public key of the machine that signs: a row [[trust]] (docs/attest.md)",
        )
    checked = _bundle(envelope, trust, where) if envelope.bundle else _signatures(envelope, trust, where)
    if not checked.signers:
        cause, sentence = min(checked.failures, key=lambda failure: list(Cause).index(failure[0]))
        raise NotBelieved(cause, sentence, fix=_FIXES[cause])
    statement = _statement(envelope, predicate_type, where)
    signer = _allowed(checked.signers, predicate_type, now, where)
    if statement.image_digest != subject_digest:
        raise NotBelieved(
            Cause.OTHER_IMAGE,
            f"{where}: is about {statement.subject[0].name or 'an image'} {statement.image_digest}, "
            f"not about {subject_digest}",
            fix="run the checks in this image and sign that report",
        )
    return Verified(
        statement=statement,
        signer=signer.name,
        keyid=signer.keyid,
        identity=signer.identity.identity if signer.identity else "",
        made=_made(statement, trust, now, where),
        ignored=tuple(sentence for _, sentence in checked.failures),
    )


_FIXES = {
    Cause.BAD_SIGNATURE: "it was changed after it was signed: get it anew from the machine that made it",
    Cause.UNKNOWN_KEY: "if you know that key, add a row [[trust]] with it (docs/attest.md); else do not use this file",
}


def _signatures(envelope: Envelope, trust: Trust, where: str) -> _Checked:
    """Every signature against every key. The keyid only chooses the sentence for one that holds for none."""
    message = pae(envelope.payload_type, envelope.payload)
    keys = [signer for signer in trust.signers if signer.key is not None]
    signers: list[Believed] = []
    failures: list[tuple[Cause, str]] = []
    for number, signature in enumerate(envelope.signatures, start=1):
        found = next((signer for signer in keys if _holds(signer.key, signature.sig, message)), None)
        if found is not None:
            signers.append(found)
            continue
        named = next((signer.name for signer in keys if signature.keyid and signer.keyid == signature.keyid), "")
        which = f"{where}: signature {number}"
        if named:
            failures.append((Cause.BAD_SIGNATURE, f"{which} says it is of {named}, and does not match that key"))
        elif signature.keyid:
            failures.append((Cause.UNKNOWN_KEY, f"{which} is of a key that is not trusted ({signature.keyid[:64]})"))
        else:
            failures.append((Cause.UNKNOWN_KEY, f"{which} matches no key that is trusted, and names none"))
    return _Checked(tuple({signer.name: signer for signer in signers}.values()), tuple(failures))


def _bundle(envelope: Envelope, trust: Trust, where: str) -> _Checked:
    """A sigstore bundle against every identity."""
    known = {signer.identity: signer for signer in trust.signers if signer.identity is not None}
    if not known:
        return _Checked(
            failures=((Cause.UNKNOWN_KEY, f"{where}: signed through sigstore, and no identity is trusted"),)
        )
    try:
        identity, kind, payload = sigstore_library.verify(envelope.bundle, tuple(known), trust.trusted_root, where)
    except sigstore_library.NotProved as error:
        return _Checked(failures=((Cause.BAD_SIGNATURE, f"{where}: sigstore does not vouch for it: {error}"),))
    if (kind, payload) != (envelope.payload_type, envelope.payload):
        return _Checked(failures=((Cause.BAD_SIGNATURE, f"{where}: the bundle was signed over another payload"),))
    return _Checked((known[identity],))


def _holds(key: Ed25519PublicKey | None, sig: bytes, message: bytes) -> bool:
    if key is None:
        return False
    try:
        key.verify(sig, message)
    except InvalidSignature:
        return False
    return True


def _statement(envelope: Envelope, predicate_type: str, where: str) -> Statement:
    try:
        statement = parse_statement(envelope.payload, f"{where}: the signed payload")
    except InputError as error:
        raise NotBelieved(Cause.MALFORMED, error.what, fix=error.fix) from None
    if statement.predicate_type != predicate_type:
        raise NotBelieved(
            Cause.OTHER_PREDICATE,
            f"{where}: says {_short(statement.predicate_type)}, and {_short(predicate_type)} was asked for",
            fix="give the file of that kind",
        )
    return statement


def _allowed(signers: Sequence[Believed], predicate_type: str, now: dt.datetime, where: str) -> Believed:
    """The first who may sign this kind, and still may."""
    able = [signer for signer in signers if predicate_type in signer.may_sign]
    if not able:
        may = ", ".join(sorted(_short(kind) for signer in signers for kind in signer.may_sign))
        raise NotBelieved(
            Cause.MAY_NOT_SIGN,
            f"{where}: signed by {_names(signers)}, who may sign {may}, not {_short(predicate_type)}",
            fix="have it signed by a key that may, or add the kind to may_sign of that row",
        )
    still = [signer for signer in able if signer.until is None or now <= signer.until]
    if not still:
        raise NotBelieved(
            Cause.NO_LONGER,
            f"{where}: signed by {_names(able)}, trusted until {able[0].until:%Y-%m-%d %H:%M} UTC only",
            fix="have it signed by a key that is trusted now",
        )
    return still[0]


def _made(statement: Statement, trust: Trust, now: dt.datetime, where: str) -> dt.datetime | None:
    """The newest moment in the statement, when it is none that has not come yet."""
    try:
        moments = times_of(statement, where)
    except InputError as error:
        raise NotBelieved(Cause.MALFORMED, error.what, fix=error.fix) from None
    if not moments:
        if statement.predicate_type in MUST_BE_DATED:
            raise NotBelieved(Cause.UNDATED, f"{where}: does not say when it was made", fix="make it anew")
        return None
    ahead = (moments[-1] - now).total_seconds()
    if ahead > trust.clock_tolerance_s:
        raise NotBelieved(
            Cause.FUTURE,
            f"{where}: dated {moments[-1]:%Y-%m-%d %H:%M:%S} UTC, {ahead:.0f} s from now; "
            f"{trust.clock_tolerance_s} s are tolerated",
            fix="one of the two clocks is wrong: set it (timedatectl), and make the statement anew if it was the other",
        )
    return moments[-1]


def _believed(rule: TrustRule, folder: Path) -> Believed:
    where = f"trust {rule.name!r}"
    if not rule.name or not rule.may_sign:
        raise InputError(f"{where}: a row without a name or without may_sign", fix='may_sign = ["smoke"]')
    unknown = sorted(set(rule.may_sign) - set(PREDICATES))
    if unknown:
        raise InputError(f"{where}: may_sign names {', '.join(unknown)}", fix=f"known: {', '.join(PREDICATES)}")
    if bool(rule.key) == bool(rule.identity):
        raise InputError(f"{where}: needs a key or an identity, one of them", fix='key = "keys/NAME.pub"')
    if bool(rule.identity) != bool(rule.issuer):
        raise InputError(f"{where}: identity and issuer belong together", fix="anybody can be anybody for some issuer")
    return Believed(
        name=rule.name,
        may_sign=frozenset(PREDICATES[name] for name in rule.may_sign),
        key=_key(rule, folder, where) if rule.key else None,
        identity=Identity(rule.identity, rule.issuer) if rule.identity else None,
        until=parse_time(rule.until, f"{where}: until") if rule.until else None,
    )


def _key(rule: TrustRule, folder: Path, where: str) -> Ed25519PublicKey:
    key = load_public(folder / rule.key)
    if rule.keyid and rule.keyid != keyid_of(key):
        raise InputError(
            f"{where}: {rule.key} has the id {keyid_of(key)}, not {rule.keyid}",
            fix="the file was exchanged, or the id is of an older key: ask its owner which it is",
        )
    return key


def _names(signers: Sequence[Believed]) -> str:
    return " and ".join(_each_name(signers))


def _each_name(signers: Sequence[Believed]) -> Iterator[str]:
    for signer in signers:
        yield signer.name


def _short(predicate_type: str) -> str:
    """The name people use."""
    return SHORT.get(predicate_type, predicate_type)
