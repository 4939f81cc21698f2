"""orbit kernels plan: what would be done, for people and for programs."""

from __future__ import annotations

import json

import pytest

from orbit.cli import main
from orbit.errors import ExitCode


def test_plan_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "plan"]) == ExitCode.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("orbit-probe 0.1.0: sm_90a, sm_100a;")
    assert "to build" in lines[0]
    skipped = [line.split(":")[0] for line in lines if "skipped" in line]
    assert {"flash-attn", "mamba-ssm"} <= set(skipped)


def test_plan_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "plan", "--kernels", "all", "--json"]) == ExitCode.OK
    plan = json.loads(capsys.readouterr().out)
    assert {"orbit-probe", "flash-attn"} <= {item["recipe"]["name"] for item in plan["items"]}
    assert plan["skipped"] == []
    assert plan["items"][0]["pairs"] == [["compute_90a", "sm_90a"], ["compute_100a", "sm_100a"]]


def test_an_unknown_profile(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "plan", "--profile", "nope"]) == ExitCode.USAGE
    assert "known profiles" in capsys.readouterr().err
