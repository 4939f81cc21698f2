"""The audit, on an environment with a fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.doctor.look import deep
from orbit.profile.model import load_profile
from tests.doctor.look.test_prefix import environment


def test_the_audit_sees_a_link_that_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "cache"))
    site = environment(tmp_path / "env")
    (site / "good/__init__.py").unlink()
    (site / "good/__init__.py").symlink_to(tmp_path / "gone.py")
    found = deep.Audit(load_profile("cu130")).findings(tmp_path / "env", Silent())
    assert {"dangling-link", "hollow-package"} & {finding.rule for finding in found}
