"""orbit kernels: the thin command over plan, manifests and recipes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.cli import main
from orbit.errors import ExitCode
from orbit.kernels import plan as plans


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path))
    monkeypatch.setattr(plans, "host_compiler", lambda: "g++ 12.2.0")
    return tmp_path


def test_plan_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "plan"]) == ExitCode.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("orbit-probe 0.1.0: sm_90a, sm_100a;")
    assert "to build" in lines[0]
    assert [line.split(":")[0] for line in lines if "skipped" in line] == ["flash-attn", "mamba-ssm"]


def test_plan_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "plan", "--kernels", "all", "--json"]) == ExitCode.OK
    plan = json.loads(capsys.readouterr().out)
    assert len(plan["items"]) == 5
    assert plan["skipped"] == []
    assert plan["items"][0]["pairs"] == [["compute_90a", "sm_90a"], ["compute_100a", "sm_100a"]]


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "show", "causal-conv1d"]) == ExitCode.OK
    text = capsys.readouterr().out
    assert "CAUSAL_CONV1D_FORCE_BUILD=TRUE" in text
    assert "9.0a;10.0a" in text
    assert main(["kernels", "show", "causal-conv1d", "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["recipe"]["device_units"] == 3


def test_mistakes_are_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "show", "nope"]) == ExitCode.USAGE
    assert "known recipes" in capsys.readouterr().err
    assert main(["kernels", "manifest"]) == ExitCode.MISSING
    assert "orbit kernels build" in capsys.readouterr().err
    assert main(["kernels", "build", "--jobs", "0"]) == ExitCode.USAGE
    assert "--jobs" in capsys.readouterr().err
    assert main(["kernels", "plan", "--profile", "nope"]) == ExitCode.USAGE


def test_a_busy_store_is_refused(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from orbit.core.store import Store

    with Store(store).writer("a test"):
        assert main(["kernels", "build", "--profile", "probe"]) == ExitCode.REFUSED
    assert "a test is running" in capsys.readouterr().err
