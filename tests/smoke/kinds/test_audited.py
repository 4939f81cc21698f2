"""The audit as a check: what it asks, and what it makes of the answer."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from orbit.smoke.kinds import audited
from orbit.smoke.model import CheckError, Context, Target

CONTEXT = Context(targets=(Target(name="h100", capability="9.0", sass="sm_90", feature="sm_90a"),))


def audit_answer(monkeypatch: pytest.MonkeyPatch, status: int, report: dict[str, Any]) -> list[list[str]]:
    asked: list[list[str]] = []

    def run(argv: list[str], **_more: object) -> subprocess.CompletedProcess[bytes]:
        asked.append(argv)
        said = b"orbit: error: what is wrong\n  fix: something\n"
        return subprocess.CompletedProcess(argv, status, json.dumps({"reports": [report]}).encode(), said)

    monkeypatch.setattr(audited, "run", run)
    return asked


def test_the_audit_as_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    clean = {"rules": ["arch-coverage"], "findings": [], "facts": {"files": 3}}
    bad = {"severity": "error", "rule": "arch-coverage", "subject": "a.so", "message": "nothing for b200"}
    asked = audit_answer(monkeypatch, 0, clean)
    assert audited.check_audit({"rules": ["arch-coverage"]}, CONTEXT)["files"] == 3
    assert [word for word in asked[0] if word.startswith("--gpu")] == [f"--gpu={t.capability}" for t in CONTEXT.targets]
    audit_answer(monkeypatch, 1, clean | {"findings": [bad, bad | {"severity": "note"}]})
    with pytest.raises(CheckError, match=r"^arch-coverage: a.so: nothing for b200$"):
        audited.check_audit({"rules": ["arch-coverage"]}, CONTEXT)
    audit_answer(monkeypatch, 0, clean | {"rules": []})
    with pytest.raises(CheckError, match="ran no rule instead of arch-coverage"):
        audited.check_audit({"rules": ["arch-coverage"]}, CONTEXT)
    audit_answer(monkeypatch, 2, {})
    with pytest.raises(CheckError, match="status 2: orbit: error: what is wrong"):
        audited.check_audit({"rules": ["arch-coverage"]}, CONTEXT)
