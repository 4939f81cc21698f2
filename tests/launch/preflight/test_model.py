"""A node's report: one failed check makes it unfit, nothing else does."""

from __future__ import annotations

import pytest

from orbit.launch.preflight.model import Check, Demand, NodeReport, State


def report(*states: State) -> NodeReport:
    """A report with one check of each state."""
    checks = tuple(Check(name=f"c{at}", state=state, message=f"m{at}", fix="do") for at, state in enumerate(states))
    return NodeReport(host="n1", started="2026-01-01T00:00:00+00:00", seconds=1.0, demand=Demand(), checks=checks)


@pytest.mark.parametrize(
    ("states", "fit"),
    [
        ((), True),
        ((State.PASSED, State.WARNING, State.SKIPPED), True),
        ((State.PASSED, State.FAILED), False),
    ],
)
def test_only_a_failed_check_makes_a_node_unfit(states: tuple[State, ...], fit: bool) -> None:
    found = report(*states)
    assert found.fit is fit
    assert bool(found.reasons) is not fit
