"""Completion scripts: sound in their shell, and they complete."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orbit import cli

ROOT = Path(__file__).resolve().parents[2]


def orbit(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "orbit", *argv], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_completion_script_is_sound(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    done = orbit("completion", shell)
    assert done.returncode == 0
    script = tmp_path / "script"
    script.write_text(done.stdout)
    assert subprocess.run([program, "-n", script], capture_output=True, check=False).returncode == 0
    for command in cli.COMMANDS:
        assert command in done.stdout


def test_bash_completes_commands_and_choices(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    script = tmp_path / "script"
    script.write_text(orbit("completion", "bash").stdout)
    program = (
        f"source {script}; complete -p orbit >/dev/null || exit 9; "
        'f=$(complete -p orbit | sed "s/.*-F \\([^ ]*\\).*/\\1/"); '
        "COMP_WORDS=(orbit comp); COMP_CWORD=1; $f orbit comp orbit; echo ${COMPREPLY[@]}; "
        "COMP_WORDS=(orbit completion z); COMP_CWORD=2; $f orbit z completion; echo ${COMPREPLY[@]}"
    )
    done = subprocess.run(
        [bash, "--norc", "-c", program], capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"]}
    )
    assert done.stdout.splitlines() == ["completion", "zsh"], done.stderr
