"""orbit lock explain: the table, one package, and bad use."""

from __future__ import annotations

import json

import pytest

from orbit.errors import InputError
from tests.cli.lock.test_check import call


def test_table_in_a_pipe_has_one_line_for_each_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("explain") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["PACKAGE", "VERSION", "SOURCE", "FILE", "SIZE", "WHY"]
    (cublas,) = [line for line in lines if line.startswith("nvidia-cublas ")]
    assert cublas.split()[1:4] == ["13.4.1.1", "index", "wheel"]
    (conv,) = [line for line in lines if line.startswith("causal-conv1d ")]
    assert conv.split()[3] == "built"
    assert 20 < len(lines) < 100


def test_table_on_a_terminal_fits(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    assert call("explain", "--all") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 268
    assert max(map(len, lines)) <= 100


def test_all_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("explain", "--all", "--json") == 0
    table = json.loads(capsys.readouterr().out)
    assert len(table["rows"]) == table["packages"] > 250


def test_one_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("explain", "nvidia_cuda_nvcc", "torch") == 0
    out = capsys.readouterr().out
    assert "nvidia-cuda-nvcc 13.0.88" in out
    assert "held by  override ==13.0.88" in out
    assert "orbit[stack] > nvidia-cuda-nvcc" in out
    assert max(len(line) for line in out.splitlines() if "://" not in line) <= 100


def test_bad_use() -> None:
    with pytest.raises(InputError, match="--all together"):
        call("explain", "--all", "torch")
    with pytest.raises(InputError, match="no profile named 'cu999'"):
        call("check", "--profile", "cu999")
