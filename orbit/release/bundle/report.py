"""What a verification says: claims, each proven, unproven, contradicted or not checked, and the verdict from them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from enum import StrEnum

from orbit.core.records import Record
from orbit.errors import ExitCode

SCHEMA = "orbit.release-report/1"
WIDTH = 17
LINE = 118


class State(StrEnum):
    """What became of a claim."""

    PROVEN = "proven"
    UNPROVEN = "unproven"
    """The release itself says that nobody showed it."""
    CONTRADICTED = "contradicted"
    """Something in the bundle, or the day's date, speaks against it."""
    NOT_CHECKED = "not checked"
    """It could not be judged here; ``why`` says what is needed."""


class Verdict(StrEnum):
    """What follows from all claims."""

    VERIFIED = "verified"
    CONTRADICTED = "contradicted"
    NOT_VERIFIED = "not verified"
    """Nothing speaks against it, and nobody's signature was checked."""


class Claim(Record, frozen=True, kw_only=True):
    """One thing a release claims."""

    name: str
    """``files``, ``signature``, ``target h100``, ..."""
    text: str
    """What is claimed, as a sentence that is true of a proven release."""
    state: State
    why: str
    """What showed it, or what is wrong, in one sentence."""
    fix: str = ""
    """What to do, when it is not proven."""
    files: tuple[str, ...] = ()
    """Files of the bundle it is about."""


class Target(Record, frozen=True, kw_only=True):
    """One GPU, in short."""

    name: str
    state: State


class Report(Record, frozen=True, kw_only=True):
    """The answer of ``orbit gate verify``."""

    schema: str = SCHEMA
    bundle: str
    """As it was named."""
    profile: str = ""
    version: str = ""
    commit: str = ""
    image: str = ""
    """``name@sha256:...``; empty when the bundle does not say."""
    created: str = ""
    checked: str
    """When this was judged: UTC, ISO 8601, by the clock of this machine."""
    signer: str = ""
    """Which of the trusted keys signed the release; empty when none did."""
    keyid: str = ""
    targets: tuple[Target, ...] = ()
    claims: tuple[Claim, ...]

    @property
    def verdict(self) -> Verdict:
        """``verified`` needs a signature that holds, and nothing that speaks against it."""
        if any(claim.state is State.CONTRADICTED for claim in self.claims):
            return Verdict.CONTRADICTED
        signed = any(claim.name == "signature" and claim.state is State.PROVEN for claim in self.claims)
        return Verdict.VERIFIED if signed else Verdict.NOT_VERIFIED

    @property
    def exit_code(self) -> ExitCode:
        """0 verified, 1 contradicted, 3 nobody's signature could be checked."""
        codes = {Verdict.VERIFIED: ExitCode.OK, Verdict.CONTRADICTED: ExitCode.FINDINGS}
        return codes.get(self.verdict, ExitCode.MISSING)


class Answer(Record, frozen=True, kw_only=True):
    """The JSON of ``orbit gate verify --json``: the verdict and the report it follows from."""

    verdict: Verdict
    report: Report


def headline(report: Report) -> str:
    """The verdict in one line; each GPU that is not proven is named."""
    what = report.image or report.bundle
    if report.verdict is Verdict.CONTRADICTED:
        bad = [claim.name for claim in report.claims if claim.state is State.CONTRADICTED]
        return f"NOT TO BE TRUSTED: {what}: contradicted: {', '.join(bad)}"
    if report.verdict is Verdict.NOT_VERIFIED:
        return f"NOT VERIFIED: {what}: nobody's signature was checked"
    return f"VERIFIED: {what}: {_targets(report)}"


def _targets(report: Report) -> str:
    words = {
        State.PROVEN: "proven on",
        State.UNPROVEN: "NOT PROVEN on",
        State.NOT_CHECKED: "said to work, not checked, on",
    }
    parts = []
    for state, word in words.items():
        if names := [target.name for target in report.targets if target.state is state]:
            parts.append(f"{word} {', '.join(names)}")
    return "; ".join(parts) or "it names no GPU"


def render(report: Report) -> str:
    """The report for people: the verdict, then what is wrong, what is not proven, what was not checked, what is."""
    lines = [headline(report)]
    if report.profile:
        lines.append(f"profile {report.profile}, orbit {report.version}, commit {report.commit}")
        lines.append(f"decided {report.created}, checked {report.checked} by the clock of this machine")
    for state in (State.CONTRADICTED, State.UNPROVEN, State.NOT_CHECKED, State.PROVEN):
        found = sorted((claim for claim in report.claims if claim.state is state), key=_rank)
        if found:
            lines += ["", f"{state.value}:"]
            lines += [line for claim in found for line in _claim(claim)]
    return "\n".join(_harmless(line) for part in lines for line in part.split("\n"))


def _harmless(line: str) -> str:
    """A line that says to a terminal what it says to a person: a bundle may be anybody's."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in line)


def _rank(claim: Claim) -> int:
    """GPUs first, then who signed what, then the rest as it came."""
    return 0 if claim.name.startswith("target ") else 1 if claim.name in ("signature", "files") else 2


def _claim(claim: Claim) -> Iterator[str]:
    yield _filled(claim.why, f"  {claim.name:{WIDTH}} ")
    if claim.fix and claim.state is not State.PROVEN:
        yield _filled(f"fix: {claim.fix}", " " * (WIDTH + 3))


def _filled(text: str, first: str) -> str:
    return textwrap.fill(
        " ".join(text.split()), LINE, initial_indent=first, subsequent_indent=" " * (WIDTH + 3), break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
