"""Whether a bundle holds the files that were signed, all of them and nothing else; and whether the signature holds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from orbit.core.records import convert
from orbit.errors import InputError, MissingError
from orbit.release.attest.dsse import Envelope
from orbit.release.attest.statement import RELEASE as RELEASE_TYPE
from orbit.release.attest.statement import times_of
from orbit.release.attest.trust import NotBelieved, Trust, Verified, verify
from orbit.release.bundle.facts import envelope_of, statement_of
from orbit.release.bundle.model import (
    INDEX,
    RELEASE,
    REQUIRED,
    SCHEMA,
    SUMS,
    BundleFile,
    Index,
    ReleasePredicate,
    indexed,
    parse_index,
    role_of,
    sha256,
    summed,
    sums,
)
from orbit.release.bundle.read import Contents
from orbit.release.bundle.report import Claim, State

SHOWN = 4
AGAIN = "download the bundle again, from its publisher"
WHOLE = "the bundle holds exactly the files that were signed"
SIGNED = "the release is signed by somebody you trust"


@dataclass(frozen=True, slots=True)
class Signed:
    """What is signed as the release, whoever signed it."""

    digest: str
    """Of the image it is about."""
    predicate: ReleasePredicate
    index: Index


def judge_files(contents: Contents) -> tuple[Claim, Signed | None]:
    """The claim, and what was signed; None when the files are not those that were.

    Raises :class:`InputError` for a bundle of another version of Orbit.
    """
    files = contents.files
    wrong = [f"{problem.path} {problem.why}" for problem in contents.problems]
    signed: Signed | None = None
    try:
        statement = statement_of(files, RELEASE)
        if statement.predicate_type != RELEASE_TYPE:
            raise InputError(f"{RELEASE}: says {statement.predicate_type}, not {RELEASE_TYPE}", fix=AGAIN)
        schema = statement.predicate.get("schema")
        listed = statement.predicate.get("files")
        whole = isinstance(listed, dict) and not any(_differences(listed, files))
        if schema != SCHEMA and whole and not wrong:
            raise _OtherVersion(f"{contents.place}: a bundle of schema {schema!r}", fix=f"this orbit reads {SCHEMA}")
        predicate = convert(statement.predicate, ReleasePredicate, RELEASE)
        wrong += _differences(predicate.files, files)
        if not wrong:
            index = parse_index(files[INDEX], INDEX)
            wrong += _lists(index, files)
            signed = Signed(statement.image_digest, predicate, index) if not wrong else None
    except _OtherVersion:
        raise
    except InputError as error:
        wrong.append(error.what)
    if not wrong and signed is not None:
        why = f"{len(files)} files, {sum(map(len, files.values())):,} bytes, are those that were signed"
        return Claim(name="files", text=WHOLE, state=State.PROVEN, why=why), signed
    return Claim(name="files", text=WHOLE, state=State.CONTRADICTED, why=shortened(wrong), fix=AGAIN), None


class _OtherVersion(InputError):
    """A bundle that is whole and of a version that this Orbit does not know."""


def shortened(sentences: list[str]) -> str:
    """The first few, and how many more there are."""
    more = f"; and {len(sentences) - SHOWN} more" if len(sentences) > SHOWN else ""
    return "; ".join(sentences[:SHOWN]) + more


def _differences(signed: Mapping[str, str], files: Mapping[str, bytes]) -> Iterator[str]:
    """Files that are not as the release statement lists them."""
    for path in sorted({*signed, *files} - {RELEASE}):
        if path not in files:
            yield f"{path} is missing"
        elif path not in signed:
            yield f"{path} was added"
        elif signed[path] != sha256(files[path]):
            yield f"{path} was changed"


def _lists(index: Index, files: Mapping[str, bytes]) -> Iterator[str]:
    """Whether both other lists say the same, and nothing that a bundle needs was never in it."""
    for path in (path for path in (*REQUIRED, INDEX, SUMS) if path not in files):
        yield f"{path} is not in it, and no bundle is without"
    rows = []
    for path in sorted(indexed(frozenset(files))):
        role = role_of(path)
        if role is None:
            yield f"{path} has no place in a bundle"
        else:
            rows.append(BundleFile(path=path, role=role, size=len(files[path]), sha256=sha256(files[path])))
    if index.files != tuple(rows):
        yield f"{INDEX} lists other files than there are"
    if files.get(SUMS) != sums({path: files[path] for path in summed(frozenset(files))}):
        yield f"{SUMS} is not the list of these files"


def judge_signature(contents: Contents, trust: Trust, now: dt.datetime) -> tuple[Claim, Verified | None]:
    """Whether somebody trusted signed the release.

    A moment of the future is no matter of the signature: :func:`orbit.release.bundle.claims.judge_dates` tells it.
    """
    if not trust.signers:
        return unsigned("no key was given, so nobody's signature was checked"), None
    try:
        envelope, statement = envelope_of(contents.files, RELEASE), statement_of(contents.files, RELEASE)
        found = verify(
            envelope,
            trust,
            predicate_type=RELEASE_TYPE,
            subject_digest=statement.image_digest,
            now=max(now, *times_of(statement, RELEASE)),
            where=RELEASE,
        )
    except (NotBelieved, InputError) as error:
        why = error.what
        return Claim(
            name="signature", text=SIGNED, state=State.CONTRADICTED, why=why, fix=error.fix, files=(RELEASE,)
        ), None
    except MissingError as error:
        return unsigned(error.what, error.fix), None
    if wrong := _other_name(envelope, found):
        return Claim(
            name="signature", text=SIGNED, state=State.CONTRADICTED, why=wrong, fix=AGAIN, files=(RELEASE,)
        ), None
    who = f"signed by {found.signer}" + (f", key {found.keyid}" if found.keyid else f", {found.identity}")
    return Claim(name="signature", text=SIGNED, state=State.PROVEN, why=who, files=(RELEASE,)), found


def _other_name(envelope: Envelope, found: Verified) -> str:
    """What is wrong with the names of the keys, which no signature is over; empty when nothing is."""
    names = {signature.keyid for signature in envelope.signatures}
    if not found.keyid or names == {found.keyid}:
        return ""
    return f"{RELEASE}: signed by {found.signer}, and it names another key: it was edited after it was signed"


def unsigned(why: str, fix: str = "") -> Claim:
    """The claim when it could not be judged."""
    fix = fix or "--key FILE with the publisher's public key, had from elsewhere than the bundle (docs/release.md)"
    return Claim(name="signature", text=SIGNED, state=State.NOT_CHECKED, why=why, fix=fix, files=(RELEASE,))
