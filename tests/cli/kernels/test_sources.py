"""orbit kernels sources: where everything is, and a folder that is not complete is no success."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.cli import main
from orbit.core.findings import Skipped
from orbit.errors import ExitCode
from orbit.kernels.sources import export as module
from orbit.kernels.sources.export import Export


def test_where_sources_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "sources", "--kernels", "all"]) == ExitCode.OK
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("orbit-probe") and line.endswith("checkout") for line in lines)
    assert any(line.startswith("flash-attn") and line.endswith("fetch") for line in lines)


def test_an_export_that_lacks_something_is_exit_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lacks = Export(folder=str(tmp_path), files=(), missing=(Skipped(what="thing: thing.bundle", reason="no network"),))
    monkeypatch.setattr(module, "export_sources", lambda *_args, **_options: lacks)
    assert main(["kernels", "sources", "--export", str(tmp_path / "out")]) == ExitCode.MISSING
    assert "thing.bundle" in capsys.readouterr().err


def test_what_cannot_be_a_folder_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    for word in ("", "file", "file/below"):
        assert main(["kernels", "sources", "--export", word, "--profile", "probe"]) == ExitCode.USAGE
        assert "--export" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
