"""The audit as a step of a pipeline: the action's program, and the hooks for pre-commit."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.source import ROOT

STUB = '#!/bin/sh\nprintf \'%s\\n\' "$@" > "$(dirname "$0")/arguments"\nexit 1\n'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the action and, in orbitw's place, a program that writes down its arguments and finds something."""
    shutil.copytree(ROOT / "ci/audit", tmp_path / "ci/audit")
    (tmp_path / "orbitw").write_text(STUB)
    (tmp_path / "orbitw").chmod(0o755)
    return tmp_path


def step(checkout: Path, **variables: str) -> tuple[int, list[str]]:
    done = subprocess.run([checkout / "ci/audit/run.sh"], env={"PATH": "/usr/bin:/bin", **variables}, check=False)
    return done.returncode, (checkout / "arguments").read_text().splitlines()


def test_targets_and_arguments_are_passed_whole_and_the_status_is_the_audits(checkout: Path) -> None:
    status, arguments = step(checkout, ORBIT_TARGETS="dist/a b.whl\n\n-odd\n", ORBIT_ARGUMENTS="--gpu=9.0\n--deep")
    assert (status, arguments) == (1, ["audit", "--gpu=9.0", "--deep", "--", "dist/a b.whl", "-odd"])


def test_what_is_typed_into_the_action_is_never_run(checkout: Path) -> None:
    _status, arguments = step(checkout, ORBIT_TARGETS="$(touch ran)\n`touch ran`; touch ran")
    assert arguments == ["audit", "--", "$(touch ran)", "`touch ran`; touch ran"]
    assert not (checkout / "ran").exists()


def test_the_report_is_an_output_of_the_step(checkout: Path) -> None:
    output = checkout / "output"
    _status, arguments = step(checkout, ORBIT_TARGETS="x", ORBIT_SARIF="r.sarif", GITHUB_OUTPUT=str(output))
    assert arguments == ["audit", "--format", "sarif", "--output", "r.sarif", "--", "x"]
    assert output.read_text() == "sarif=r.sarif\n"


def test_the_action_hands_its_inputs_over_as_variables_only() -> None:
    text = (ROOT / "ci/audit/action.yml").read_text()
    for name in ("targets", "arguments", "sarif"):
        assert f"ORBIT_{name.upper()}: ${{{{ inputs.{name} }}}}" in text
    (script,) = re.findall(r"run: (.*)", text)
    assert "${{" not in script


@pytest.mark.parametrize(
    ("hook", "names"),
    [
        (
            "orbit-audit-lock",
            {"uv.lock": True, "a/pylock.gpu.toml": True, "my-uv.lock": False, "uv.lock.txt": False},
        ),
        ("orbit-audit-wheels", {"dist/a-1-py3-none-any.whl": True, "a.whl.txt": False}),
    ],
)
def test_hooks_take_the_files_they_are_for(hook: str, names: dict[str, bool]) -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text()
    part = text[text.index(f"- id: {hook}") :]
    pattern = re.search(r"files: (.*)", part)
    assert pattern is not None
    assert {name: re.search(pattern[1], name) is not None for name in names} == names
