from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import pytest

from orbit.cli import lock
from orbit.core import paths
from orbit.core.paths import checkout_root
from orbit.errors import InputError


def call(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    lock.configure(parser)
    return lock.run(parser.parse_args(argv))


@pytest.mark.parametrize("profile", ["cu130", "probe"])
def test_check_is_clean(profile: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", "--profile", profile) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert f"profile {profile}: clean" in err


def test_check_json_is_on_stdout_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["schema"], report["profile"], report["findings"]) == ("orbit.lock-report/1", "cu130", [])


def test_findings_are_shown_and_give_exit_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = checkout_root()
    for name in ("pyproject.toml", "uv.lock"):
        shutil.copy(root / name, tmp_path / name)
    for folder in ("env", "kernels/recipes"):
        shutil.copytree(root / folder, tmp_path / folder)
    policy = tmp_path / "env" / "lock-policy.toml"
    policy.write_text(policy.read_text().replace('version = "==13.4.1.1"', 'version = "==13.1.0.3"'))
    monkeypatch.setattr(paths, "data_root", lambda: tmp_path)
    assert call("check") == 1
    err = capsys.readouterr().err
    assert "error: lock-cuda-release: nvidia-cublas 13.4.1.1: off CUDA 13.0" in err
    assert "fix: override it in pyproject.toml" in err
    assert "1 finding(s)" in err


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


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 kB"), (1, "1 kB"), (45_000, "45 kB"), (12_345_678, "12.3 MB"), (4_436_436_638, "4.44 GB")],
)
def test_sizes(count: int, text: str) -> None:
    assert lock.megabytes(count) == text
