"""What a release says of each GPU follows from the decision."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orbit.release.bundle.model import TargetClaim
from orbit.release.bundle.targets import headline, targets_of
from orbit.release.gate.case import Judgement, Mark
from orbit.release.gate.decide import Decision
from tests.release.bundle.world import World


@pytest.fixture(scope="module")
def decision(world: World) -> Decision:
    """One."""
    return world.decision()


def with_gpu(decision: Decision, *judgements: Judgement) -> Decision:
    """The decision with other answers about GPUs."""
    others = [item for item in decision.judgements if item.requirement != "smoke-gpu"]
    return msgspec.structs.replace(decision, judgements=(*others, *judgements))


def judgement(subject: str, mark: Mark, file: str = "") -> Judgement:
    return Judgement(requirement="smoke-gpu", subject=subject, mark=mark, reason="because", file=file)


def test_proven_is_what_was_met_and_by_which_files(world: World, decision: Decision) -> None:
    h100, b200 = targets_of(decision, world.profile)
    assert (h100.state, h100.evidence, h100.why) == ("proven", ("evidence/smoke-h100.intoto.json",), "")
    assert (b200.state, b200.evidence) == ("unproven", ())
    assert "nobody signed" in b200.why


def test_several_files_may_show_one(world: World, decision: Decision) -> None:
    made = with_gpu(decision, judgement("h100", Mark.MET, "a.intoto.json, b.intoto.json"))
    assert targets_of(made, world.profile)[0].evidence == ("evidence/a.intoto.json", "evidence/b.intoto.json")


@pytest.mark.parametrize("mark", [Mark.UNPROVEN, Mark.MISSING, Mark.REFUSED])
def test_nothing_else_is_proven(world: World, decision: Decision, mark: Mark) -> None:
    made = with_gpu(decision, judgement("h100", mark, "a.intoto.json"))
    assert [target.state for target in targets_of(made, world.profile)] == ["unproven", "unproven"]


def test_met_without_a_file_is_not_proven(world: World, decision: Decision) -> None:
    made = with_gpu(decision, judgement("h100", Mark.MET))
    assert targets_of(made, world.profile)[0].state == "unproven"


def target(name: str, state: str) -> TargetClaim:
    return msgspec.convert(
        {"name": name, "devices": [name.upper()], "capability": "9.0", "feature": "sm_90a", "state": state}, TargetClaim
    )


@pytest.mark.parametrize(
    ("states", "line"),
    [
        (("proven", "proven"), "# n 1: proven on a (A), b (B)"),
        (("proven", "unproven"), "# n 1: proven on a (A); UNPROVEN on b (B)"),
        (("unproven", "unproven"), "# n 1: UNPROVEN on a (A), b (B)"),
    ],
)
def test_the_first_line_names_every_target(states: tuple[str, str], line: str) -> None:
    assert headline("n", "1", [target("a", states[0]), target("b", states[1])]) == line


def test_it_is_the_first_line_of_the_page(world: World) -> None:
    page: Path = world.place / "bundle" / "RELEASE.md"
    assert (
        page.read_text().splitlines()[0] == "# orbit/probe 0.1.0: proven on h100 (H100, H200); UNPROVEN on b200 (B200)"
    )
