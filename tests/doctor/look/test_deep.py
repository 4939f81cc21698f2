"""The long way, on what is here: an environment with a fault, and the preflight as the doctor asks it."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.doctor.look import deep
from orbit.launch.preflight.model import Demand, NodeReport
from orbit.profile.model import load_profile
from tests.doctor.look.test_prefix import environment


def test_the_audit_sees_a_link_that_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "cache"))
    site = environment(tmp_path / "env")
    (site / "good/__init__.py").unlink()
    (site / "good/__init__.py").symlink_to(tmp_path / "gone.py")
    found = deep.Deep(load_profile("cu130")).findings(tmp_path / "env", Silent())
    assert {"dangling-link", "hollow-package"} & {finding.rule for finding in found}


def test_the_preflight_is_asked_for_the_gpus_that_are_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[Demand, object]] = []

    def check_node(demand: Demand, *, rank: int, host: str, prefix: Path | None) -> NodeReport:
        asked.append((demand, prefix))
        return NodeReport(rank=rank, host=host, started="", seconds=0.0, demand=demand, checks=())

    monkeypatch.setattr(deep, "check_node", check_node)
    assert deep.Deep(load_profile("cu130")).checks(4, tmp_path) == ()
    assert asked == [(Demand(gpus=4), tmp_path)]
