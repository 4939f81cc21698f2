"""in-toto Statement v1: which image something is said of, what kind of thing that is, and the thing itself.

Form: the in-toto attestation framework, spec/v1/statement.md and resource_descriptor.md. A statement of Orbit has one
subject, the image manifest::

    {"_type": "https://in-toto.io/Statement/v1",
     "subject": [{"name": "orbit/cu130", "digest": {"sha256": "9f0c..."}}],
     "predicateType": "urn:orbit:predicate:smoke:1",
     "predicate": {...the smoke report, as orbit wrote it...}}

Reading is closed (an unknown field is refused), though the standard lets readers pass over what they do not know: what
is signed and not understood must not help an image to become a release.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import Any

import msgspec

from orbit.core.records import Record, canonical, convert
from orbit.errors import InputError
from orbit.release.attest.strict import MAKE_ANEW, strict_json

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
"""Media type of a statement in an envelope."""

SMOKE = "urn:orbit:predicate:smoke:1"
"""A report of ``orbit image smoke`` or ``python -m orbit.smoke``."""
QUALIFICATION = "urn:orbit:predicate:qualification:1"
"""A record of ``orbit qualify``."""
COVERAGE = "urn:orbit:predicate:gpu-arch-coverage:1"
"""Which GPU runs which file as machine code: :class:`orbit.release.coverage.Coverage`."""
CLEAN_ROOM = "urn:orbit:predicate:clean-room:1"
SECOND_PREFIX = "urn:orbit:predicate:second-prefix:1"
RELEASE = "urn:orbit:predicate:release:1"
"""The decision of the gate."""
PROVENANCE = "https://slsa.dev/provenance/v1"
"""SLSA v1: :class:`orbit.release.provenance.Provenance`."""

PREDICATES = {
    "smoke": SMOKE,
    "qualification": QUALIFICATION,
    "gpu-arch-coverage": COVERAGE,
    "clean-room": CLEAN_ROOM,
    "second-prefix": SECOND_PREFIX,
    "release": RELEASE,
    "provenance": PROVENANCE,
}
"""Short name (in ``may_sign`` and on the command line) to predicate type."""

IMAGE_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
HEX = re.compile(r"[0-9a-f]+")
SHA256_DIGITS = 64
TIMES = ("started", "finished", "recorded", "made", "decided")
"""Top-level fields of our own predicates that say when, UTC in ISO 8601."""
SLSA_TIMES = ("startedOn", "finishedOn")


class Resource(Record, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """in-toto's ResourceDescriptor: a thing by name, address or digest. Fields that are empty are not written."""

    name: str = ""
    uri: str = ""
    digest: dict[str, str] = {}
    """Algorithm (``sha256``, ``gitCommit``) to lower-case hex."""
    content: str = ""
    """The thing itself, base64."""
    download_location: str = ""
    media_type: str = ""
    annotations: dict[str, Any] = {}


class Statement(Record, frozen=True, kw_only=True, rename={"type_": "_type", "predicate_type": "predicateType"}):
    """Something said of an image."""

    type_: str = STATEMENT_TYPE
    subject: tuple[Resource, ...]
    predicate_type: str
    """One of :data:`PREDICATES`' values."""
    predicate: dict[str, Any]

    @property
    def image_digest(self) -> str:
        """``sha256:...`` of the one subject."""
        return f"sha256:{self.subject[0].digest['sha256']}"


def image_subject(name: str, digest: str) -> Resource:
    """The image ``name`` (``orbit/cu130``) whose manifest has ``digest`` (``sha256:...``) as a subject.

    Raises :class:`InputError` when ``digest`` is none.
    """
    found = IMAGE_DIGEST.fullmatch(digest)
    if found is None:
        raise InputError(
            f"{digest!r} is no image digest",
            fix="give the digest of the manifest, sha256: and 64 hex digits (`orbit image inspect LAYOUT` shows it)",
        )
    return Resource(name=name, digest={"sha256": found[1]})


def make_statement(name: str, digest: str, predicate_type: str, predicate: Any) -> Statement:
    """Say ``predicate`` (a record, or plain data) of the image ``name`` with manifest ``digest``.

    Raises :class:`InputError` for values that JSON has no place for (NaN, half characters), and a digest that is none.
    """
    where = "this predicate"
    try:
        text = json.dumps(msgspec.to_builtins(predicate), allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{where} cannot be written: {error}", fix="see the value named") from None
    plain = strict_json(text.encode(), where)  # as a reader will see it: no tuples
    return Statement(subject=(image_subject(name, digest),), predicate_type=predicate_type, predicate=plain)


def statement_bytes(statement: Statement) -> bytes:
    """The statement as it is signed: JSON with sorted keys and no spaces, equal whenever the statements are."""
    return canonical(statement)


def parse_statement(data: bytes, where: str) -> Statement:
    """Read a statement; ``where`` names it in errors. Raises :class:`InputError` saying what is wrong with it."""
    value = strict_json(data, where)
    if not isinstance(value, dict):
        raise InputError(f"{where}: not an object", fix=MAKE_ANEW)
    if value.get("_type") != STATEMENT_TYPE:
        raise InputError(
            f"{where}: _type is {value.get('_type')!r}", fix=f"this version of orbit reads {STATEMENT_TYPE}"
        )
    statement = convert(value, Statement, where)
    if len(statement.subject) != 1:
        raise InputError(
            f"{where}: {len(statement.subject)} subjects", fix="a statement of Orbit is about one image: make it anew"
        )
    check_digests(statement.subject[0].digest, where)
    if "sha256" not in statement.subject[0].digest:
        raise InputError(f"{where}: its subject has no sha256", fix=MAKE_ANEW)
    if not statement.predicate_type:
        raise InputError(f"{where}: its predicateType is empty", fix=MAKE_ANEW)
    return statement


def check_digests(digests: dict[str, str], where: str) -> None:
    """Raises :class:`InputError` unless every digest is lower-case hex, and one called sha256 has 64 digits."""
    for algorithm, digits in digests.items():
        if not HEX.fullmatch(digits) or (algorithm == "sha256" and len(digits) != SHA256_DIGITS):
            raise InputError(f"{where}: {digits!r} is no {algorithm}", fix="digests are written in lower-case hex")


def parse_time(text: str, where: str) -> dt.datetime:
    """A moment in ISO 8601. Raises :class:`InputError`, also without a time zone: then nobody knows when that was."""
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(f"{where}: {error}", fix="write it as 2026-11-30T21:00:00+00:00") from None
    if moment.tzinfo is None:
        raise InputError(f"{where}: {text!r} has no time zone", fix="write it as 2026-11-30T21:00:00+00:00")
    return moment.astimezone(dt.UTC)


def times_of(statement: Statement, where: str) -> tuple[dt.datetime, ...]:
    """When the predicate says that it was made, all its moments, oldest first; empty when it says nothing.

    Raises :class:`InputError` for what stands in such a place and is no moment.
    """
    found = {key: statement.predicate[key] for key in TIMES if key in statement.predicate}
    if statement.predicate_type == PROVENANCE:
        metadata = _inner(statement.predicate, "runDetails", "metadata")
        found = {f"runDetails.metadata.{key}": metadata[key] for key in SLSA_TIMES if key in metadata}
    moments = []
    for key, text in found.items():
        if not isinstance(text, str):
            raise InputError(f"{where}: {key} is no moment", fix=MAKE_ANEW)
        if text:
            moments.append(parse_time(text, f"{where}: {key}"))
    return tuple(sorted(moments))


def _inner(value: Any, *keys: str) -> dict[str, Any]:
    """The object under ``keys``; an empty one where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}
