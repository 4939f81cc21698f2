"""The pipeline runner, with small stages in place of the real ones. The real ones run in tests/test_main_job.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import orbit.ship
from orbit.core.console import Silent
from orbit.core.findings import Finding, Severity, Skipped
from orbit.core.records import load_json
from orbit.core.store import Store
from orbit.errors import CheckFailed, MissingError, RefusedError
from orbit.profile.model import load_profile
from orbit.release.checkout import Checkout
from orbit.release.evidence import Result, StageRecord, Summary
from orbit.release.seal import broken, read_seal
from orbit.ship import Options, Outcome, Run, StageSkipped, ship

Stages = tuple[tuple[str, Callable[[Run], Outcome]], ...]


def fine(_run: Run) -> Outcome:
    return Outcome(inputs={"a": 1}, outputs={"b": 2})


def unreachable(_run: Run) -> Outcome:
    raise MissingError("source.tar.gz: cannot be reached", fix="check the network")


def finds(severity: Severity, waiver: str = "") -> Callable[[Run], Outcome]:
    finding = Finding(
        rule="record-hash", severity=severity, subject="a.py", message="bytes differ", waiver=waiver, fix="x"
    )
    return lambda _run: Outcome(inputs={}, outputs={}, findings=(finding,))


def run_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *stages: Callable[[Run], Outcome]) -> Summary:
    monkeypatch.setattr(orbit.ship, "STAGES", tuple((f"s{n}", stage) for n, stage in enumerate(stages)))
    return ship(
        load_profile("probe"),
        tmp_path,
        Store(tmp_path / "store"),
        dist=tmp_path / "dist",
        options=Options(),
        progress=Silent(),
    )


def last_run(tmp_path: Path) -> Path:
    return (tmp_path / "dist" / "probe").resolve()


def test_all_pass(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    summary = run_with(monkeypatch, tmp_path, fine, fine)
    assert summary.result is Result.PASSED
    folder = last_run(tmp_path)
    assert folder.name == summary.run
    names = ["01-s0.json", "02-s1.json", "evidence.json", "summary.json", "summary.md"]
    assert sorted(p.name for p in folder.iterdir()) == names
    assert load_json(folder / "01-s0.json", StageRecord).outputs == {"b": 2}


def test_the_last_file_names_every_other_one_and_the_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(orbit.ship, "read_checkout", lambda _root: Checkout(commit="ab" * 20))
    summary = run_with(monkeypatch, tmp_path, fine)
    seal = read_seal(last_run(tmp_path))
    assert set(seal.files) == {"01-s0.json", "summary.json", "summary.md"}
    assert broken(last_run(tmp_path), seal) == {}
    assert (seal.run, seal.profile, seal.image) == (summary.run, "probe", "")
    assert seal.checkout == Checkout(commit="ab" * 20)


def test_a_checkout_that_changes_meanwhile_is_no_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    states = iter((Checkout(commit="ab" * 20), Checkout(commit="cd" * 20)))
    monkeypatch.setattr(orbit.ship, "read_checkout", lambda _root: next(states))
    run_with(monkeypatch, tmp_path, fine)
    seal = read_seal(last_run(tmp_path))
    assert not seal.checkout.clean
    assert "changed while the run went on" in seal.checkout.reason


def test_a_failed_run_is_sealed_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(MissingError):
        run_with(monkeypatch, tmp_path, unreachable)
    assert broken(last_run(tmp_path), read_seal(last_run(tmp_path))) == {}


def test_a_failure_is_recorded_and_stops_the_rest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[str] = []

    def later(run: Run) -> Outcome:
        ran.append("later")
        return fine(run)

    with pytest.raises(MissingError, match="cannot be reached"):
        run_with(monkeypatch, tmp_path, fine, unreachable, later)
    summary = load_json(last_run(tmp_path) / "summary.json", Summary)
    assert ran == []
    assert [stage.result for stage in summary.stages] == [Result.PASSED, Result.FAILED, Result.SKIPPED]
    assert summary.result is Result.FAILED
    assert "cannot be reached" in summary.stages[1].reason
    assert summary.stages[2].reason == "an earlier stage failed"


def test_fatal_findings_fail_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match=r"record-hash a\.py"):
        run_with(monkeypatch, tmp_path, finds(Severity.ERROR), fine)
    assert load_json(last_run(tmp_path) / "01-s0.json", StageRecord).result is Result.FAILED


@pytest.mark.parametrize("stage", [finds(Severity.WARNING), finds(Severity.ERROR, waiver="known, until 2027-01-01")])
def test_other_findings_are_shown_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stage: Callable[[Run], Outcome]
) -> None:
    assert run_with(monkeypatch, tmp_path, stage).result is Result.PASSED
    assert "record-hash" in (last_run(tmp_path) / "summary.md").read_text()


def test_skips_are_values(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def whole(_run: Run) -> Outcome:
        raise StageSkipped("--no-smoke was given")

    part = Outcome(inputs={}, outputs={}, skipped=(Skipped(what="flash-attn", reason="tier extended"),))
    summary = run_with(monkeypatch, tmp_path, lambda _run: part, whole)
    assert summary.stages[1].result is Result.SKIPPED
    page = (last_run(tmp_path) / "summary.md").read_text()
    assert "flash-attn: tier extended" in page
    assert "--no-smoke was given" in page


def test_an_interrupt_leaves_a_summary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(_run: Run) -> Outcome:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_with(monkeypatch, tmp_path, interrupted, fine)
    assert load_json(last_run(tmp_path) / "summary.json", Summary).stages[0].reason == "interrupted"


def test_one_at_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with Store(tmp_path / "store").writer("orbit ship"), pytest.raises(RefusedError, match="orbit ship is running"):
        run_with(monkeypatch, tmp_path, fine)
    assert not (tmp_path / "dist").exists()


def test_two_runs_in_one_second_keep_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = {run_with(monkeypatch, tmp_path, fine).run for _ in range(3)}
    assert len(names) == 3


def test_leftovers_of_a_killed_run_are_swept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    leftover = Store(tmp_path / "store").scratch("image-0123")
    (leftover / "half").write_text("x")
    run_with(monkeypatch, tmp_path, fine)
    assert not leftover.exists()
