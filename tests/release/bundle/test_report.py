"""The verdict from the claims, and how it is said."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from orbit.errors import ExitCode
from orbit.release.bundle.report import Claim, Report, State, Target, Verdict, headline, render
from tests.release.bundle.world import World


def claim(name: str, state: State, why: str = "because", fix: str = "") -> Claim:
    return Claim(name=name, text="it is so", state=state, why=why, fix=fix)


def report(*claims: Claim, **more: Any) -> Report:
    return Report(bundle="b", checked="2026-11-30T22:00:00+00:00", claims=claims, **more)


SIGNED = claim("signature", State.PROVEN)


@pytest.mark.parametrize(
    ("claims", "verdict", "code"),
    [
        ((SIGNED,), Verdict.VERIFIED, ExitCode.OK),
        ((SIGNED, claim("target b200", State.UNPROVEN)), Verdict.VERIFIED, ExitCode.OK),
        ((SIGNED, claim("image", State.NOT_CHECKED)), Verdict.VERIFIED, ExitCode.OK),
        ((SIGNED, claim("sbom", State.CONTRADICTED)), Verdict.CONTRADICTED, ExitCode.FINDINGS),
        ((claim("signature", State.CONTRADICTED),), Verdict.CONTRADICTED, ExitCode.FINDINGS),
        ((claim("signature", State.NOT_CHECKED), claim("sbom", State.PROVEN)), Verdict.NOT_VERIFIED, ExitCode.MISSING),
        ((claim("image", State.NOT_CHECKED), claim("a", State.CONTRADICTED)), Verdict.CONTRADICTED, ExitCode.FINDINGS),
        ((), Verdict.NOT_VERIFIED, ExitCode.MISSING),
    ],
)  # fmt: skip
def test_the_verdict_follows_from_the_claims(claims: tuple[Claim, ...], verdict: Verdict, code: ExitCode) -> None:
    made = report(*claims)
    assert (made.verdict, made.exit_code) == (verdict, code)


def test_the_first_line_is_the_verdict() -> None:
    targets = (
        Target(name="a", state=State.PROVEN),
        Target(name="b", state=State.UNPROVEN),
        Target(name="c", state=State.NOT_CHECKED),
    )
    assert headline(report(SIGNED, image="n@d", targets=targets)) == (
        "VERIFIED: n@d: proven on a; NOT PROVEN on b; said to work, not checked, on c"
    )
    assert headline(report(image="n@d")) == "NOT VERIFIED: n@d: nobody's signature was checked"
    wrong = report(SIGNED, claim("sbom", State.CONTRADICTED), claim("lock", State.CONTRADICTED))
    assert headline(wrong) == "NOT TO BE TRUSTED: b: contradicted: sbom, lock"


def test_people_read_what_is_wrong_first_and_what_to_do() -> None:
    made = report(
        SIGNED,
        claim("lock", State.PROVEN, fix="nothing"),
        claim("target b200", State.UNPROVEN, fix="run it there"),
        claim("image", State.NOT_CHECKED, fix="give one"),
        claim("sbom", State.CONTRADICTED, why="counts differ", fix="download it again"),
    )
    lines = render(made).splitlines()
    heads = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert heads == ["contradicted:", "unproven:", "not checked:", "proven:"]
    assert lines[0].startswith("NOT TO BE TRUSTED")
    assert "  sbom              counts differ" in lines
    for fix in ("run it there", "give one", "download it again"):
        assert any(f"fix: {fix}" in line for line in lines)
    assert not any("fix: nothing" in line for line in lines)


def test_long_sentences_are_wrapped_and_nothing_is_lost() -> None:
    why = " ".join(f"word{n}" for n in range(100))
    lines = render(report(claim("sbom", State.CONTRADICTED, why=why))).splitlines()
    assert max(map(len, lines)) <= 118
    assert " ".join(" ".join(lines).split()).count("word") == 100


def test_what_others_wrote_cannot_speak_to_the_terminal() -> None:
    odd = "\x1b[2J\x1b]0;t\x07 VERIFIED \u202e \udc80"
    text = render(report(claim("files", State.CONTRADICTED, why=odd, fix=odd), image=odd, profile=odd))
    assert {letter for letter in text if not letter.isprintable()} == {"\n"}
    assert "\\x1b[2J" in text


def test_a_report_survives_json(world: World) -> None:
    made = world.verify()
    again = msgspec.json.decode(msgspec.json.encode(made), type=Report)
    assert again == made
    assert json.loads(msgspec.json.encode(made))["claims"][0]["state"] == "proven"
