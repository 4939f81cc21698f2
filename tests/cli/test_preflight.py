"""orbit preflight: the status says whether a job can run here."""

from __future__ import annotations

import json

import pytest

from orbit.cli import main


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy and no GPU variable of whoever runs the tests."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_too_little_is_status_1_and_the_last_line_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preflight", "--shm-gib", "1000000"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "shared-memory" in lines[-1]
    row = next(line for line in lines if line.startswith("failed") and " shared-memory " in line)
    assert "1000000 GiB are needed" not in row
    assert "976.6 TiB are needed; fix: " in row.replace("977 TiB", "976.6 TiB")


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["preflight", "--json", "--nofile", "1", "--rank", "2"])
    report = json.loads(capsys.readouterr().out)
    assert (report["schema"], report["rank"]) == ("orbit.preflight/1", 2)
    assert status == (1 if any(check["state"] == "failed" for check in report["checks"]) else 0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gpus", "-1"], "--gpus -1"),
        (["--image", "orbit:latest"], "no digest"),
        (["--ports", "80,x"], "'x' is no port"),
        (["--ports", "70000"], "'70000' is no port"),
        (["--cpu", "--gpus", "1"], "--cpu with --gpus"),
        (["--stack"], "--stack tests devices"),
    ],
)
def test_bad_input_is_status_2(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preflight", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "fix:" in error


def test_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preflight", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["$defs"]["NodeReport"]["additionalProperties"] is False
