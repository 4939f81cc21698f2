"""orbit env materialize: what people type and what they are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.cli import main
from tests.env.test_materialize import make_linked


@pytest.fixture(autouse=True)
def no_cache_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UV_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))


def test_a_dry_run_lists_and_changes_nothing_then_it_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, _ = make_linked(tmp_path)
    assert main(["env", "materialize", str(root), "--dry-run"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 5
    assert out[-1].startswith("would copy 4 paths")
    assert "lib/python3.12/site-packages/pkg/b.py (hard link)" in out
    assert main(["env", "materialize", str(root), "--dry-run", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["links"]) == 4
    assert main(["env", "materialize", str(root)]) == 0
    out = capsys.readouterr().out
    assert "kept bin/python -> /bin/sh" in out
    assert "3 links and 1 shared files are files of its own now" in out


def test_nothing_to_do_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, _ = make_linked(tmp_path)
    assert main(["env", "materialize", str(root), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["links"] == 3
    for more in ([], ["--dry-run"]):
        assert main(["env", "materialize", str(root), *more]) == 0
        assert "nothing to do" in capsys.readouterr().out


@pytest.mark.parametrize(("argv", "code"), [(["nowhere"], 2), ([".", "--jobs", "0"], 2), (["."], 2)])
def test_bad_input_has_a_way_out(
    argv: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["env", "materialize", *argv]) == code
    assert "fix:" in capsys.readouterr().err


def test_links_to_nothing_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, _ = make_linked(tmp_path)
    (root / "bad").symlink_to("nothing")
    for more in ([], ["--dry-run"]):
        assert main(["env", "materialize", str(root), *more]) == 4
        assert "bad -> nothing" in capsys.readouterr().err
