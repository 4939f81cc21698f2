"""The program that loads the stack."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orbit.core.paths import PACKAGE
from orbit.launch.fingerprint.stack.loaded import load


def test_what_is_not_installed_is_passed_over_and_what_fails_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_module.py").write_text("import nothing_of_that_name\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    errors = load(("nothing_of_that_name", "broken_module", "json"))
    assert list(errors) == ["broken_module"]
    assert errors["broken_module"].startswith("ModuleNotFoundError: ")


def test_it_needs_nothing_but_the_standard_library() -> None:
    """Without site-packages: as in an environment that has nothing of Orbit's."""
    program = "import sys; sys.path.append(sys.argv[1]); from orbit.launch.fingerprint.stack.loaded import main; main()"
    words = [sys.executable, "-I", "-S", "-c", program, str(PACKAGE.parent)]
    said = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    assert said["errors"] == said["versions"] == {}
    assert "libc.so.6" in said["maps"]
    assert Path(said["program"]).name.startswith("python")
