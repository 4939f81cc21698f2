"""A decision for people: the answer, then a line for each part of each requirement, and what to do about it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from orbit.release.gate.case import Judgement, Mark
from orbit.release.gate.decide import Decision
from orbit.release.gate.model import NAMES, Definition

WIDTH = 118
INDENT = " " * 26
COLORS = {Mark.MET: "32", Mark.UNPROVEN: "33", Mark.MISSING: "31", Mark.REFUSED: "31"}


def render(decision: Decision, definition: Definition, *, color: bool = False) -> str:
    """The decision as text."""
    lines = [_paint(headline(decision), "1", color)]
    lines.append(
        f"image {decision.digest or 'none'}  commit {decision.commit[:12] or 'none'}  run {decision.run or 'none'}"
    )
    lines.append("")
    for judgement in decision.judgements:
        lines += _rows(judgement, color)
    if kept := sorted({item.requirement for item in decision.refusals}, key=NAMES.index):
        lines += ["", "Why these are asked for:"]
        lines += [_filled(f"{name:14} {_reason(definition, name)}", "  ", " " * 17) for name in kept]
    return "\n".join(lines) + "\n"


def headline(decision: Decision) -> str:
    """The answer in one line."""
    unproven = f"unproven on {', '.join(item.subject for item in decision.unproven)}" if decision.unproven else ""
    if decision.release:
        return f"{decision.profile}: a release" + (f", {unproven}" if unproven else "")
    kept = len({item.requirement for item in decision.refusals})
    return f"{decision.profile}: not a release: {kept} of {len(NAMES)} requirements are not met"


def _rows(judgement: Judgement, color: bool) -> Iterator[str]:
    if judgement.subject == judgement.file:
        about, file = (f"{judgement.subject} " if judgement.subject else ""), ""
    else:
        about = f"{judgement.subject}: " if judgement.subject else ""
        file = f" [{judgement.file}]" if judgement.file else ""
    mark = _paint(f"{judgement.mark.value:9}", COLORS[judgement.mark], color)
    rest = _filled(f"{about}{judgement.reason}{file}", INDENT, INDENT).removeprefix(INDENT)
    yield f"{mark} {judgement.requirement:15} {rest}"
    if judgement.fix and judgement.mark is not Mark.MET:
        yield _filled(f"fix: {judgement.fix}", INDENT, INDENT + "     ")


def _reason(definition: Definition, name: str) -> str:
    return definition.requirement(name).reason


def _filled(text: str, first: str, later: str) -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )


def _paint(text: str, code: str, color: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if color else text
