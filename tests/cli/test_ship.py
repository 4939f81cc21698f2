"""``orbit ship`` at its edge: flags, exit codes, what is printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import orbit.ship
from orbit.cli import main
from orbit.errors import ExitCode
from orbit.kernels.build import Limit
from orbit.ship import Outcome, Run


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One stage that does nothing, a cache of its own."""
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "cache"))
    stage = ("lock", lambda _run: Outcome(inputs={}, outputs={"packages": 3}))
    monkeypatch.setattr(orbit.ship, "STAGES", (stage,))


def test_people_read_stderr_and_programs_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dist = str(tmp_path / "dist")
    assert main(["ship", "--profile", "probe", "--dist", dist]) == ExitCode.OK
    seen = capsys.readouterr()
    assert seen.out == ""
    assert "probe: passed" in seen.err
    assert "summary.md" in seen.err
    assert main(["ship", "--profile", "probe", "--dist", dist, "--json"]) == ExitCode.OK
    summary = json.loads(capsys.readouterr().out)
    assert summary["result"] == "passed"
    assert (Path(dist) / summary["run"] / "summary.md").is_file()


@pytest.mark.parametrize(
    ("flags", "says"),
    [(["--jobs", "0"], "--jobs 0"), (["--profile", "cu999"], "cu999"), (["--profile", "../probe"], "known profiles")],
)
def test_bad_values_are_named(flags: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ship", *flags]) == ExitCode.USAGE
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["--engine", "chroot"], ["--kernels", "some"], ["--jobs", "many"]])
def test_bad_flags_end_with_usage(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["ship", *flags])
    assert caught.value.code == ExitCode.USAGE
    assert flags[0] in capsys.readouterr().err


def test_options_reach_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    def stage(run: Run) -> Outcome:
        seen.update(options=run.options, profile=run.profile.name)
        return Outcome(inputs={}, outputs={})

    monkeypatch.setattr(orbit.ship, "STAGES", (("lock", stage),))
    flags = ["--kernels", "all", "--jobs", "3", "--engine", "bubblewrap", "--no-smoke", "--profile", "probe"]
    assert main(["ship", *flags, "--dist", str(tmp_path)]) == ExitCode.OK
    assert seen["profile"] == "probe"
    assert seen["options"] == orbit.ship.Options(kernels="all", limit=Limit(jobs=3), engine="bubblewrap", smoke=False)


def test_dry_run_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dist = tmp_path / "dist"
    assert main(["ship", "--profile", "probe", "--dist", str(dist), "--dry-run", "--json"]) == ExitCode.OK
    plan = json.loads(capsys.readouterr().out)
    assert list(plan) == ["lock", "kernels", "environment", "audit", "image", "image-audit", "sbom", "smoke"]
    assert "orbit-probe" in plan["kernels"]
    assert not dist.exists()
    assert not (tmp_path / "cache" / "entries").exists()
