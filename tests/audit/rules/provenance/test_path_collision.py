"""path-collision: one package in two folders of the import path; folders that only share a name are silent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orbit.audit.installed.environment import read_environment
from orbit.audit.rules import RULES
from orbit.core.console import Silent
from orbit.core.findings import Finding
from tests.audit.support import make_policy
from tests.writers.environment import EnvironmentWriter, write_sound_environment


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return write_sound_environment(tmp_path / "e")


def check(env: EnvironmentWriter, *files: str, python_path: str = "checkout") -> list[Finding]:
    """Findings with ``files`` in a checkout that is first on PYTHONPATH."""
    for name in files:
        path = env.prefix / "checkout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    facts = read_environment(env.prefix, make_policy().profile, Silent())
    facts = replace(facts, variables={"PYTHONPATH": f"{env.prefix}/{python_path}"})
    return list(RULES["path-collision"].check(facts, make_policy()))


def test_two_regular_packages(env: EnvironmentWriter) -> None:
    (finding,) = check(env, "good/__init__.py")
    assert finding.evidence["packages"] == "good"
    assert "the copy in checkout is imported" in finding.message
    assert finding.fatal is False


def test_a_regular_package_hides_a_namespace(env: EnvironmentWriter) -> None:
    (finding,) = check(env, "good/more.py")
    assert "hides" in finding.message


def test_two_namespaces_with_a_common_part(env: EnvironmentWriter) -> None:
    env.add("megatron-core", {"megatron/core/__init__.py": b""})
    (finding,) = check(env, "megatron/core/__init__.py", "megatron/training/__init__.py")
    assert finding.evidence["packages"] == "megatron.core"
    assert "merged" in finding.message


@pytest.mark.parametrize(
    "files",
    [
        ("megatron/training/__init__.py",),  # another part of the namespace: that is what namespaces are for
        ("tests/__init__.py", "docs/conf.py", "tools/run.py"),
        ("good.txt", "good-1/x.py"),
        ("good/data.txt",),  # not a package: no Python file and no folder
        ("other/__init__.py",),
    ],
)
def test_checkouts_that_collide_with_nothing(env: EnvironmentWriter, files: tuple[str, ...]) -> None:
    env.add("megatron-core", {"megatron/core/__init__.py": b"", "tests/__init__.py": b"", "tools/run.py": b""})
    assert check(env, *files) == []


def test_a_path_that_is_not_used_is_not_judged(env: EnvironmentWriter) -> None:
    assert check(env, "good/__init__.py", python_path="elsewhere") == []


def test_folder_of_a_path_file(env: EnvironmentWriter) -> None:
    (env.site / "x.pth").write_text("../../../checkout\n")
    (finding,) = check(env, "good/__init__.py", python_path="none")
    assert "site-packages is imported" in finding.message
