"""orbit kernels compare: equal wheels, different wheels, no wheels."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from orbit.cli import main
from orbit.errors import ExitCode


def test_two_wheels_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = []
    for folder, text in (("a", b"one"), ("b", b"two")):
        path = tmp_path / folder / "thing-1.0-py3-none-any.whl"
        path.parent.mkdir()
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("thing/__init__.py", text)
            archive.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        paths.append(str(path))
    assert main(["kernels", "compare", paths[0], paths[0]]) == ExitCode.OK
    assert "thing/__init__.py" not in capsys.readouterr().out
    assert main(["kernels", "compare", *paths]) == ExitCode.FINDINGS
    assert "thing/__init__.py" in capsys.readouterr().out


def test_what_is_no_wheel_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "thing-1.0-py3-none-any.whl"
    path.write_bytes(b"no archive")
    assert main(["kernels", "compare", str(path), str(path)]) == ExitCode.USAGE
    assert path.name in capsys.readouterr().err


def test_what_is_no_file_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (tmp_path, tmp_path / "absent.whl"):
        assert main(["kernels", "compare", str(path), str(path)]) == ExitCode.USAGE
        assert f"{path}: no such file" in capsys.readouterr().err
