"""requirement: what is missing or of another version is a finding; what is optional, elsewhere or declared is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orbit.audit.known.policy import Policy
from orbit.core.findings import Severity
from orbit.profile.model import load_profile
from tests.audit.support import judge, judge_wheels, make_policy
from tests.writers.environment import EnvironmentWriter, write_sound_environment
from tests.writers.wheels import write_wheel

RULE = "requirement"


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return write_sound_environment(tmp_path / "e")


def test_two_who_want_another_version_are_one_finding(env: EnvironmentWriter) -> None:
    env.add("numpy", {}, version="2.3.5")
    env.add("old", {}, headers=["Requires-Dist: numpy<2"])
    env.add("older", {}, headers=["Requires-Dist: numpy<1.27,>=1.26"])
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.severity) == ("numpy", Severity.ERROR)
    assert "2.3.5 is installed; 2 distributions require another version" in finding.message
    assert finding.evidence["wanted by"] == "old 1.0 wants <2, older 1.0 wants <1.27,>=1.26"


def test_missing(env: EnvironmentWriter) -> None:
    env.add("a", {}, headers=["Requires-Dist: gone>=1"])
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.message) == ("gone", "not installed; 1 distribution requires it")


def test_wheels_need_not_come_with_what_they_require_but_fit_each_other(tmp_path: Path) -> None:
    write_wheel(tmp_path, "a", {}, requires=["torch==2.11.0", "b>=2"])
    assert judge_wheels([*tmp_path.glob("*.whl")], RULE) == []
    write_wheel(tmp_path, "b", {})
    (finding,) = judge_wheels([*tmp_path.glob("*.whl")], RULE)
    assert finding.subject == "b"


def test_optional_parts_other_systems_and_other_pythons_are_silent(env: EnvironmentWriter) -> None:
    headers = ["gone ; extra == 'x'", "gone ; sys_platform == 'win32'", "gone ; python_version < '3.11'"]
    env.add("a", {}, headers=[f"Requires-Dist: {line}" for line in headers] + ["Provides-Extra: x"])
    env.add("b", {}, headers=["Requires-Dist: A.", "Requires-Dist: native"])
    assert [f.severity for f in judge(env.prefix, RULE)] == [Severity.NOTE]  # "A." is no requirement
    env.add("c", {}, headers=["Requires-Dist: a[x]"])
    assert [f.subject for f in judge(env.prefix, RULE) if f.fatal] == ["gone"]


def test_older_metadata_meets_a_requirement(env: EnvironmentWriter) -> None:
    env.add("a", {}, headers=["Requires-Dist: PyYAML>=6", "Requires-Dist: six<2"])
    (env.site / "PyYAML-6.0.1.egg-info").mkdir()
    (env.site / "six-1.16.0-py3.12.egg-info").write_text("")
    assert judge(env.prefix, RULE) == []


def cu130() -> Policy:
    return replace(make_policy(), profile=load_profile("cu130"))


def test_an_override_with_its_reason_is_a_note(env: EnvironmentWriter) -> None:
    env.add("nvidia-cublas", {}, version="13.4.1.1")
    env.add("toolkit", {}, headers=["Requires-Dist: nvidia-cublas==13.1.0.3"])
    (finding,) = judge(env.prefix, RULE, cu130())
    assert finding.severity is Severity.NOTE
    assert "TransformerEngine" in finding.message


def test_a_pin_of_another_version_declares_nothing(env: EnvironmentWriter) -> None:
    env.add("nvidia-cublas", {}, version="13.5.0")
    env.add("toolkit", {}, headers=["Requires-Dist: nvidia-cublas==13.1.0.3"])
    # held by a bound of the project, not by an override: what others require still counts
    env.add("transformers", {}, version="5.12.1")
    env.add("megatron-bridge", {}, headers=["Requires-Dist: transformers<5.9"])
    assert [(f.subject, f.fatal) for f in judge(env.prefix, RULE, cu130())] == [
        ("nvidia-cublas", True), ("transformers", True),
    ]  # fmt: skip


def test_what_the_record_says_was_left_out_is_a_warning(env: EnvironmentWriter) -> None:
    env.add("a", {}, headers=["Requires-Dist: flash-attn"])
    share = env.prefix / "share/orbit"
    share.mkdir(parents=True)
    (share / "environment.json").write_text(
        '{"profile": "p", "lock": "x", "skipped": [{"what": "flash-attn", "reason": "tier extended"}]}'
    )
    (finding,) = judge(env.prefix, RULE)
    assert finding.severity is Severity.WARNING
    assert "tier extended" in finding.message
