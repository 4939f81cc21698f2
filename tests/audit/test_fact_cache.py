"""Remembered digests: used for unchanged files only, never for fresh or edited ones, and damage is harmless."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orbit.audit import fact_cache
from orbit.audit.report import AuditReport
from orbit.audit.run import audit_environment
from orbit.profile.model import load_profile
from tests.writers.environment import EnvironmentWriter, write_sound_environment


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EnvironmentWriter:
    monkeypatch.setattr(fact_cache, "SETTLE_NS", 0)
    env = write_sound_environment(tmp_path / "e")
    time.sleep(0.02)  # longer than a tick of the file system's clock
    return env


def audit(env: EnvironmentWriter) -> AuditReport:
    return audit_environment(env.prefix, load_profile("probe"), cache=env.prefix.parent / "facts")


def remembered(report: AuditReport) -> int:
    return report.facts["remembered_digests"]


def test_second_audit_hashes_nothing(env: EnvironmentWriter) -> None:
    first, second = audit(env), audit(env)
    assert remembered(first) == 0
    assert remembered(second) == second.facts["verified_files"] == first.facts["verified_files"] > 0
    assert second.findings == first.findings


def test_edit_that_restores_size_and_times_is_seen(env: EnvironmentWriter) -> None:
    audit(env)
    path = env.site / "good/data.txt"
    info = path.stat()
    path.write_bytes(b"tExt\n")
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
    report = audit(env)
    assert [finding.rule for finding in report.findings if finding.fatal] == ["record-hash"]
    assert remembered(report) == report.facts["verified_files"] - 1


def test_fresh_files_are_not_remembered(env: EnvironmentWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fact_cache, "SETTLE_NS", 3_600_000_000_000)
    audit(env)
    assert remembered(audit(env)) == 0


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-3], lambda data: b"\xc1" + data])
def test_damaged_cache_is_an_empty_one(env: EnvironmentWriter, damage: Callable[[bytes], bytes]) -> None:
    audit(env)
    (path,) = (env.prefix.parent / "facts").glob("*.digests")
    path.write_bytes(damage(path.read_bytes()))
    assert remembered(audit(env)) == 0
    assert remembered(audit(env)) > 0


def test_cache_that_cannot_be_written_costs_nothing_but_time(env: EnvironmentWriter) -> None:
    (env.prefix.parent / "facts").write_text("a file is in the way")
    assert [finding for finding in audit(env).findings if finding.fatal] == []
