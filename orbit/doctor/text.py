"""A diagnosis for a person: the first cause whole, the rest in a line or two each."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from orbit.core.amounts import format_bytes, format_seconds
from orbit.doctor.catalog import Certainty, Symptom, load_catalog
from orbit.doctor.diagnosis import Cause, Diagnosis

LABEL = 11
MOST_WIDTH = 110
LEAST_WIDTH = 50
SHOWN_OTHERS = 12
WORDS = {Certainty.CERTAIN: "certain", Certainty.LIKELY: "likely", Certainty.POSSIBLE: "possible"}


def render(diagnosis: Diagnosis, width: int) -> str:
    """The whole answer, in lines of at most ``width`` characters."""
    width = max(LEAST_WIDTH, min(width, MOST_WIDTH))
    lines = list(_causes(diagnosis, width) if diagnosis.causes else _nothing(diagnosis, width))
    return "\n".join([*lines, *_footer(diagnosis, width)]) + "\n"


def render_symptom(symptom: Symptom, width: int) -> str:
    """One entry of the catalogue."""
    width = max(LEAST_WIDTH, min(width, MOST_WIDTH))
    lines = [symptom.title, f"  {symptom.id}, {WORDS[symptom.certainty]} by its text", ""]
    lines += _block("you see", symptom.sees, width)
    lines += _block("cause", symptom.cause, width)
    lines += _fixes(symptom.fix, width)
    live = [f"detector {name}" for name in symptom.detectors]
    live += [f"audit rule {rule}" for rule in symptom.rules] + [f"preflight check {check}" for check in symptom.checks]
    live += [f"rule {rule} of orbit launch lint" for rule in symptom.manifest]
    lines += _block("seen by", ", ".join(live) or "nothing", width)
    if symptom.unseen:
        lines += _block("not here", symptom.unseen, width)
    lines += _block(
        "text", f"{len(symptom.patterns)} patterns" if symptom.patterns else f"none: {symptom.untold}", width
    )
    if symptom.after:
        lines += _block("follows", ", ".join(symptom.after), width)
    return "\n".join(lines) + "\n"


def _causes(diagnosis: Diagnosis, width: int) -> Iterator[str]:
    first, *others = diagnosis.causes
    count = len(diagnosis.causes)
    yield _fill(f"{'1 of ' + str(count) + ': ' if others else ''}{first.title}  ({WORDS[first.certainty]})", "", width)
    yield ""
    for evidence in first.evidence:
        yield from _block("found", evidence, width)
    yield from _block("cause", first.cause, width)
    yield from _fixes(first.fix, width)
    if others:
        yield from _block("why first", first.why_here, width)
        yield ""
        yield "also found"
        for cause in others[:SHOWN_OTHERS]:
            yield from _short(cause, width)
        if len(others) > SHOWN_OTHERS:
            yield f"  and {len(others) - SHOWN_OTHERS} more: --json has all"


def _short(cause: Cause, width: int) -> Iterator[str]:
    lead = "    " if cause.follows_from else "  "
    how = f"follows from {cause.follows_from}" if cause.follows_from else WORDS[cause.certainty]
    yield _fill(f"{lead}{cause.symptom} ({how}): {cause.title}", lead + "  ", width)
    yield _cut(f"{lead}  {cause.evidence[0]}", width)


def _nothing(diagnosis: Diagnosis, width: int) -> Iterator[str]:
    if diagnosis.asked == "machine":
        yield "Nothing wrong was found in what was looked at."
    else:
        yield _fill("No known cause matches this text.", "", width)
        yield ""
        yield _fill(
            "Give the whole log, not the last lines: the first error is the cause, and what comes later follows "
            "from it. Then look at the machine itself: `orbit doctor`, with --deep if that finds nothing.",
            "",
            width,
        )
    if diagnosis.near:
        yield ""
        yield _fill("By its words alone, which proves nothing, it is nearest to:", "", width)
        for name in diagnosis.near:
            yield _fill(f"  {name}: {load_catalog()[name].title}", "    ", width)
        yield "  orbit doctor --about NAME shows them"
    yield ""
    yield from _block(
        "next", "send `orbit doctor --report FILE` (facts without secrets) and the log to a colleague", width
    )


def _footer(diagnosis: Diagnosis, width: int) -> Iterator[str]:
    yield ""
    if diagnosis.asked != "machine":
        size = f"{diagnosis.lines} lines, {format_bytes(diagnosis.bytes)}"
        yield _fill(f"read: {diagnosis.asked} ({size}). Nothing on this machine was looked at.", "  ", width)
    if diagnosis.looked:
        names = ", ".join(look.what for look in diagnosis.looked)
        seconds = format_seconds(sum(look.seconds for look in diagnosis.looked))
        yield _fill(f"looked at in {seconds}: {names}", "  ", width)
    for skipped in diagnosis.skipped:
        yield _fill(f"not looked at: {skipped.what}: {skipped.reason}", "  ", width)
    if diagnosis.others:
        yield _fill(f"the audit has {diagnosis.others} further findings: orbit audit PREFIX", "  ", width)
    if diagnosis.causes:
        yield "all of one: orbit doctor --about NAME"


def _block(label: str, text: str, width: int) -> list[str]:
    lead, rest = f"  {label:<{LABEL}}", " " * (LABEL + 2)
    return textwrap.wrap(
        text, width, initial_indent=lead, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False
    ) or [lead.rstrip()]


def _fixes(fixes: Sequence[str], width: int) -> list[str]:
    if len(fixes) == 1:
        return _block("fix", fixes[0], width)
    lines: list[str] = []
    for number, fix in enumerate(fixes, 1):
        lead = f"  {'fix' if number == 1 else '':<{LABEL}}{number}. "
        lines += textwrap.wrap(
            fix,
            width,
            initial_indent=lead,
            subsequent_indent=" " * len(lead),
            break_on_hyphens=False,
            break_long_words=False,
        )
    return lines


def _fill(text: str, hang: str, width: int) -> str:
    return textwrap.fill(
        text, width, subsequent_indent=hang, break_on_hyphens=False, break_long_words=False, drop_whitespace=True
    )


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 4]} ..."
