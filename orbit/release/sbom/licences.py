"""Which licence a Python distribution has, from what it says: never a guess.

A licence is known when one place states it without doubt and no other place contradicts it. What a place may mean is
data (:mod:`orbit.release.sbom.knowledge`): ``BSD`` may mean several licences, so alone it says nothing; with the text
of the licence beside it, known by its bytes, it does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

from orbit.release.sbom.expressions import canonical_expression, licences_in
from orbit.release.sbom.knowledge import Knowledge
from orbit.release.sbom.model import Licence, LicenceText, Said, tidy

EXPRESSION, FIELD, CLASSIFIER = "License-Expression", "License", "Classifier"
NOTHING = ("", "unknown", "none")
LEAD = "License :: "
FOREIGN = "Other/Proprietary License"
OWN_TERMS = "LicenseRef-"
"""What the classifier of proprietary licences may mean: anything that has no SPDX id."""


def licence_of(
    name: str,
    version: str,
    *,
    headers: dict[str, list[str]],
    texts: Sequence[LicenceText],
    missing: Sequence[str],
    known: Knowledge,
) -> Licence:
    """The licence of the distribution with these ``headers`` (see :func:`orbit.audit.installed.dists.read_headers`).

    ``texts``: its licence files; ``missing``: those it names and does not have.
    """
    said = tuple(_said(headers))
    declared, concluded, why = conclude(
        said, {known.texts[text.sha256] for text in texts if text.sha256 in known.texts}, known
    )
    reviewed = known.reviewed.get((name, version), "")
    if reviewed and not concluded:
        said, concluded, why = (*said, Said(where="reviewed", text=reviewed)), reviewed, ""
    return Licence(
        expression=concluded,
        declared=declared,
        unknown=why,
        said=tuple(Said(where=item.where, text=tidy(_title(item.text))) for item in said),
        texts=tuple(texts),
        missing=tuple(missing),
    )


def _said(headers: dict[str, list[str]]) -> list[Said]:
    found = [Said(where=EXPRESSION, text=text) for text in headers.get("license-expression", ())[:1]]
    found += [
        Said(where=FIELD, text=text) for text in headers.get("license", ())[:1] if text.strip().lower() not in NOTHING
    ]
    found += [
        Said(where=CLASSIFIER, text=text.removeprefix(LEAD))
        for text in sorted(set(headers.get("classifier", ())))
        if text.startswith(LEAD) and text != f"{LEAD}OSI Approved"
    ]
    return found


def conclude(said: Sequence[Said], texts: Collection[str], known: Knowledge) -> tuple[str, str, str]:
    """(what the first place declares, what follows from all, why nothing follows); the last two exclude each other.

    ``texts``: SPDX ids of the licence files whose bytes are known.
    """
    if not said:
        return ("", next(iter(texts)), "") if len(texts) == 1 else ("", "", "nothing is said in the metadata")
    meanings = [_meanings(item, known) for item in said]
    decided = [found[0] for found in meanings if len(found) == 1]
    first = said[0].where in (EXPRESSION, FIELD)
    if first and not meanings[0]:
        return "", "", f"{said[0].where} is in words of its own: {tidy(_title(said[0].text), 80)}"
    declared = meanings[0][0] if len(meanings[0]) == 1 and meanings[0][0] != OWN_TERMS else ""
    if declared and first:
        result = declared
    elif len(set(decided)) == 1 and decided[0] != OWN_TERMS:
        result = decided[0]
    else:
        fitting = {text for text in texts if all(_fits(meaning, (text,)) for meaning in meanings)}
        if len(fitting) != 1:
            return declared, "", _doubt(said)
        result = fitting.pop()
    ids = licences_in(result)
    against = [item for item, meaning in zip(said, meanings, strict=True) if not _fits(meaning, ids)]
    if against:
        return declared, "", f"{result} is contradicted by {against[0].where}: {tidy(_title(against[0].text), 80)}"
    return declared or result, result, ""


def _doubt(said: Sequence[Said]) -> str:
    texts = "; ".join(tidy(_title(item.text), 80) for item in said)
    return f"not one licence: {texts}"


def _meanings(item: Said, known: Knowledge) -> tuple[str, ...]:
    """What a place may mean; empty when nobody knows."""
    if item.where == EXPRESSION:
        expression = canonical_expression(item.text)
        return (expression,) if expression else ()
    if item.where == CLASSIFIER:
        return (OWN_TERMS,) if item.text == FOREIGN else known.classifiers.get(item.text, ())
    if text := known.texts.get(hashlib.sha256(item.text.encode("utf-8", "replace")).hexdigest()):
        return (text,)
    lines = [line.strip() for line in item.text.splitlines() if line.strip()]
    for title in (item.text, " ".join(lines[:2]), " ".join(lines[:1])):
        if found := known.may_mean(title):
            return found
    return ()


def _fits(meaning: tuple[str, ...], ids: Sequence[str]) -> bool:
    """Whether a place that may mean ``meaning`` can stand beside licences ``ids``. What nobody knows contradicts
    nothing."""
    if not meaning:
        return True
    if OWN_TERMS in meaning:
        return any(item.startswith(OWN_TERMS) for item in ids)
    return any(not set(licences_in(item)).isdisjoint(ids) for item in meaning)


def _title(text: str) -> str:
    """The first line of a text, two when the first is short: what people call it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines[:2]) if len(lines) > 2 else " ".join(lines)
