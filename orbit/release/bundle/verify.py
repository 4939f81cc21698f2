"""Verifying a bundle, offline: who signed it, whether it is whole, and what of its claims follows from what is in it.

A key that lies in the bundle is never a reason to trust it: whom to trust is the caller's to say.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec

from orbit.core.console import Progress, Silent
from orbit.errors import InputError, MissingError, RefusedError
from orbit.release.attest.keys import keyid_of, load_public
from orbit.release.attest.statement import PREDICATES
from orbit.release.attest.trust import Believed, Trust, Verified, read_trust
from orbit.release.bundle import claims, facts, requirements
from orbit.release.bundle.again import OtherVersion, decide_again
from orbit.release.bundle.facts import Files
from orbit.release.bundle.integrity import Signed, judge_files, judge_signature
from orbit.release.bundle.local import judge_image
from orbit.release.bundle.read import Contents, read_contents
from orbit.release.bundle.report import Claim, Report, State, Target

NOT_WHOLE = "the files are not those that were signed, so nothing in them was judged"
NOBODYS = "nobody you trust signed these files, so nothing in them was judged"
NONSENSE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
NO_WORD = "the files agree with each other, but no signature that holds stands behind them"


def verify_bundle(
    place: Path,
    trust: Trust,
    *,
    now: dt.datetime,
    image: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Judge the bundle at ``place``, a folder or a tar file, at the moment ``now``.

    ``image``: a layout, an archive or a digest that is to be the released image. Nothing is fetched, run or written.

    Raises :class:`InputError` for what is no bundle or one of another version, and :class:`MissingError` when ``image``
    is not there.
    """
    contents = read_contents(place)
    whole, signed = judge_files(contents)
    signature, known = judge_signature(contents, trust, now)
    if signed is None or signature.state is State.CONTRADICTED:
        rest = [_not_looked_at(NOT_WHOLE if signed is None else NOBODYS)]
    else:
        rest = _contents(contents.files, signed, trust, now)
        rest.append(judge_image(image, contents.files, signed.index.image, progress or Silent()))
        if signature.state is not State.PROVEN:
            rest = [_without_a_word(claim) for claim in rest]
    found = (whole, signature, *rest)
    return _report(contents, signed, known, found, now)


def _contents(files: Files, signed: Signed, trust: Trust, now: dt.datetime) -> list[Claim]:
    """Everything that follows from what is in the files; of an image elsewhere nothing."""
    try:
        profile = facts.profile_of(files)
        released = facts.image_of(files, profile.image.name)
        again = decide_again(files, signed.predicate.decision.decided)
        return list(_judged(claims.Case(files, signed, profile, released, again, trust, now)))
    except OtherVersion:
        raise
    except InputError as error:
        return [claims.unreadable(error.what)]
    except NONSENSE as error:  # typed, and yet with a text where a number belongs: nobody has to have signed it
        return [claims.unreadable(f"the records make no sense: {type(error).__name__}: {error}")]


def _judged(case: claims.Case) -> Iterator[Claim]:
    yield claims.judge_index(case)
    yield claims.judge_documents(case)
    yield claims.judge_decision(case)
    yield claims.judge_subjects(case)
    yield claims.judge_provenance(case)
    yield claims.judge_coverage(case)
    yield from requirements.judge_requirements(case)
    yield from requirements.judge_targets(case)
    yield claims.judge_dates(case)


def _not_looked_at(why: str) -> Claim:
    return Claim(name="contents", text="what the files say is true", state=State.NOT_CHECKED, why=why)


def _without_a_word(claim: Claim) -> Claim:
    """Nothing is proven by files that anybody may have made."""
    if claim.state is not State.PROVEN or claim.name == "image":
        return claim
    return msgspec.structs.replace(claim, state=State.NOT_CHECKED, why=f"{claim.why} ({NO_WORD})")


def _report(
    contents: Contents, signed: Signed | None, known: Verified | None, found: tuple[Claim, ...], now: dt.datetime
) -> Report:
    moment = now.astimezone(dt.UTC).replace(microsecond=0).isoformat()
    report = Report(bundle=str(contents.place), checked=moment, claims=found)
    if signed is None:
        return report
    index, states = signed.index, {claim.name: claim.state for claim in found}
    return msgspec.structs.replace(
        report,
        profile=index.profile,
        version=index.version,
        commit=index.commit,
        image=index.image.reference,
        created=index.created,
        signer=known.signer if known else "",
        keyid=known.keyid if known else "",
        targets=tuple(
            Target(name=item.name, state=states.get(f"target {item.name}", State.NOT_CHECKED)) for item in index.targets
        ),
    )


def trust_in(keys: list[Path], bundle: Path, rules: Path | None = None) -> Trust:
    """Trust in the public keys in these files, for anything a release needs signed; and in the rows of ``rules``.

    Raises :class:`MissingError` when a file is not there, :class:`InputError` for what is no public key, and
    :class:`RefusedError` for a key that came with the bundle: whoever made that could have put any key there.
    """
    given = read_trust(rules) if rules is not None else Trust()
    signers = {signer.keyid or str(signer.identity): signer for signer in given.signers}
    for path in keys:
        if not path.exists():
            raise MissingError(f"--key {path}: no such file", fix="get the public key from whoever publishes the image")
        if path.resolve().is_relative_to(bundle.resolve()):
            raise RefusedError(
                f"--key {path}: this key came with the bundle, so it proves nothing of it",
                fix="get the key elsewhere; keys/ only tells which one it is (docs/release.md)",
            )
        key = load_public(path)
        signers.setdefault(keyid_of(key), Believed(name=path.name, may_sign=frozenset(PREDICATES.values()), key=key))
    return replace(given, signers=tuple(signers.values()))
