"""Evidence that was made elsewhere: statements in files ``*.intoto.json``, each believed or refused by name.

Nothing of a file is used before a signature over it held. Only the sentence that says why a file does not count may
name what it claims to be.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from orbit.core.files import sha256_file
from orbit.errors import InputError, OrbitError
from orbit.release.attest.dsse import SUFFIX, Envelope, read_envelope
from orbit.release.attest.statement import PREDICATES, parse_statement
from orbit.release.attest.trust import SHORT, Trust, verify
from orbit.release.gate.facts import SECOND_PREFIX_FILE, Attested, Problem

UNSIGNED = frozenset({SECOND_PREFIX_FILE})
"""Made by the machine that runs the gate, like the run itself, and no more signed than that."""


def read_attestations(
    folder: Path, trust: Trust, *, digest: str, now: dt.datetime
) -> tuple[tuple[Attested, ...], tuple[Problem, ...], dict[str, str]]:
    """(believed, problems, sha256 by name) of every attestation in ``folder``, about the image ``digest``.

    A file of another name is a problem too: evidence that is passed over in silence helps nobody. Only
    :data:`UNSIGNED` may lie there as well. Raises :class:`InputError` when ``folder`` is none.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder", fix="name the folder with the attestations (*.intoto.json)")
    believed: list[Attested] = []
    problems: list[Problem] = []
    hashes: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        if path.name in UNSIGNED:
            continue
        if not path.name.endswith(SUFFIX) or not path.is_file():
            what = f"is no attestation: only files *{SUFFIX} are read from this folder"
            problems.append(Problem(path.name, what, "take it out of the folder"))
            continue
        hashes[path.name] = sha256_file(path)
        found = _read(path, trust, digest, now)
        if isinstance(found, Problem):
            problems.append(found)
        else:
            believed.append(found)
    return tuple(believed), tuple(problems), hashes


def _read(path: Path, trust: Trust, digest: str, now: dt.datetime) -> Attested | Problem:
    claim = ""
    try:
        envelope = read_envelope(path)
        claim = claimed(envelope, path.name)
        wanted = PREDICATES.get(claim, claim)
        known = verify(envelope, trust, predicate_type=wanted, subject_digest=digest, now=now, where=path.name)
    except OrbitError as error:
        return Problem(path.name, error.what.removeprefix(f"{path}: ").removeprefix(f"{path.name}: "), error.fix, claim)
    return Attested(
        file=path.name,
        predicate=claim,
        digest=known.statement.image_digest,
        signer=known.signer,
        made=known.made,
        content=known.statement.predicate,
    )


def claimed(envelope: Envelope, where: str) -> str:
    """What kind of statement an envelope says it holds, by its short name; nobody has vouched for it yet.

    Raises :class:`InputError` for what is no statement.
    """
    statement = parse_statement(envelope.payload, where)
    return SHORT.get(statement.predicate_type, statement.predicate_type)
