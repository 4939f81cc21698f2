"""across: what is not tried, and how the nodes are told to meet. With torch: stack/test_stack.py."""

from __future__ import annotations

import pytest

from orbit.launch.preflight import across
from orbit.launch.preflight.across import check_across
from orbit.launch.preflight.gpu_tests import Answer, Group
from orbit.launch.preflight.model import Demand, State


@pytest.mark.parametrize(("demand", "nodes"), [(Demand(gpus=8), 1), (Demand(), 4)])
def test_nothing_to_add_up(demand: Demand, nodes: int) -> None:
    check = check_across(demand, node=0, nodes=nodes, address="h", port=1)
    assert check.state is State.SKIPPED
    assert check.message


@pytest.mark.parametrize(
    ("address", "meet"), [("10.0.0.1", "tcp://10.0.0.1:21000"), ("fd00::1", "tcp://[fd00::1]:21000")]
)
def test_how_they_meet(address: str, meet: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Group] = []

    def stand_in(group: Group, *, limit_s: float) -> Answer:
        asked.append(group)
        return Answer(task="all-reduce", problem=f"no answer within {limit_s:g} s")

    monkeypatch.setattr(across, "run_group", stand_in)
    check = check_across(Demand(gpus=8), node=2, nodes=4, address=address, port=21000)
    assert asked == [Group(local=8, nodes=4, node=2, meet=meet, backend="nccl")]
    assert check.state is State.FAILED
    assert "over 4 nodes" in check.message
