"""orbit.kernels.backend: the backend that pyproject.toml names is called with what the recipe says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orbit.kernels.backend import PYPROJECT, SETUPTOOLS

BACKEND = """
import json
from pathlib import Path

class hooks:
    @staticmethod
    def build_wheel(folder, config_settings=None):
        Path(folder, "called.json").write_text(json.dumps(config_settings))
"""


@pytest.mark.parametrize(
    ("table", "folder"),
    [
        ('build-backend = "made_here:hooks"\nbackend-path = ["tools"]', "tools"),
        ('build-backend = "made_here:hooks"\nbackend-path = ["."]', "."),
    ],
)
def test_a_backend_of_the_source_s_own(tmp_path: Path, table: str, folder: str) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "made_here.py").write_text(BACKEND)
    (tmp_path / "pyproject.toml").write_text(f"[build-system]\nrequires = []\n{table}\n")
    out = tmp_path / "out"
    out.mkdir()
    settings = {"cmake.args": "-DX=1"}
    argv = [sys.executable, "-I", "-B", "-c", PYPROJECT, str(out), json.dumps(settings)]
    subprocess.run(argv, cwd=tmp_path, check=True)
    assert json.loads((out / "called.json").read_text()) == settings


def test_a_source_that_names_no_backend_ends_with_an_error(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[build-system]\nrequires = []\n")
    argv = [sys.executable, "-I", "-B", "-c", PYPROJECT, str(tmp_path), "{}"]
    done = subprocess.run(argv, cwd=tmp_path, check=False, capture_output=True)
    assert done.returncode != 0
    assert b"build-backend" in done.stderr


def test_a_setup_py_may_import_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("NAME = 'thing'")
    (tmp_path / "setup.py").write_text("from beside import NAME\nraise SystemExit(f'found {NAME}')\n")
    argv = [sys.executable, "-B", "-c", SETUPTOOLS, str(tmp_path)]
    done = subprocess.run(argv, cwd=tmp_path, check=False, capture_output=True, env={"PYTHONPATH": setuptools_folder()})
    assert b"found thing" in done.stderr


def setuptools_folder() -> str:
    return str(Path(pytest.importorskip("setuptools").__file__).parent.parent)
