"""settings: variables that came along, told only where they matter."""

from __future__ import annotations

import re

import pytest

from orbit.launch.preflight.model import Demand, State
from orbit.launch.preflight.settings import judge_settings
from tests.launch.preflight.made import RULES, only

GPUS = Demand(gpus=8)


@pytest.mark.parametrize(
    ("env", "demand", "state"),
    [
        ({}, GPUS, State.PASSED),
        ({"CUDA_LAUNCH_BLOCKING": "1"}, GPUS, State.WARNING),
        ({"CUDA_LAUNCH_BLOCKING": "0"}, GPUS, State.PASSED),
        ({"CUDA_LAUNCH_BLOCKING": ""}, GPUS, State.PASSED),
        ({"CUDA_LAUNCH_BLOCKING": "1"}, Demand(), State.PASSED),
        ({"NCCL_IB_DISABLE": "1"}, GPUS, State.PASSED),
        ({"NCCL_IB_DISABLE": "1"}, Demand(gpus=8, rdma="wanted"), State.WARNING),
        ({"RAY_ADDRESS": "10.0.0.1:6379"}, Demand(), State.WARNING),
    ],
)
def test_settings(env: dict[str, str], demand: Demand, state: State) -> None:
    check = only(judge_settings(env, demand, RULES), "settings")
    assert check.state is state
    assert state is State.PASSED or next(iter(env)) in check.fix


def test_every_setting_can_be_matched_and_says_why() -> None:
    assert len({row.name for row in RULES.settings}) == len(RULES.settings) >= 8
    assert all(re.compile(row.value).fullmatch("") is None and row.text for row in RULES.settings)
