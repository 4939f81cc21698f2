"""Smoke from outside: complete results, no engine, whole runs in a tiny image and their reuse."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.errors import InputError, MissingError
from orbit.image.damage import DamagedImage
from orbit.image.oci import read_layout
from orbit.image.smoke import run as smoke
from orbit.image.smoke.engine import Choice
from orbit.profile.model import load_profile
from tests.image.tiny import CRASHING, PLAN, result, tiny, working
from tests.writers.tiny_image import file, write_image


@pytest.fixture(params=["bubblewrap", "unshare"])
def choice(request: pytest.FixtureRequest) -> Choice:
    return working(request.param)


def test_a_check_without_a_result_failed() -> None:
    found = smoke.complete(PLAN, [result("one")], "ended with status 7", "noise")
    assert [item.result for item in found] == ["passed", "failed"]
    assert "ended with status 7" in found[1].detail
    assert found[1].tail == "noise"


def test_a_container_that_did_not_start_says_so_once() -> None:
    started = smoke.start_result([result("one")], "ended with status 7", "noise")
    assert (started.check, started.result) == ("start", "passed")
    dead = smoke.start_result([], "ended with status 126", "some words\npermission denied\n")
    assert dead.result == "failed"
    assert dead.detail == "the container did not start: ended with status 126: permission denied"


def test_modes_are_judged_for_users_that_are_not_root() -> None:
    assert smoke.mode_result(("key",), 0) == ()
    assert smoke.mode_result(None, 65534) == ()
    assert smoke.mode_result((), 65534)[0].result == "passed"
    closed = smoke.mode_result(tuple(f"f{n}" for n in range(7)), 65534)[0]
    assert closed.result == "failed"
    assert "f0" in closed.detail
    assert "2 more" in closed.detail


def test_without_an_engine_every_list_is_skipped(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(smoke.FINDERS, "auto", (lambda: "no docker", lambda: "no bubblewrap"))
    monkeypatch.setitem(smoke.FINDERS, "docker", (lambda: "no docker",))
    layout = write_image(tmp_path / "layout", [[file("f")]])
    profile = load_profile("probe")
    answer = smoke.run_smoke(profile, layout, ["probe-cpu"], store, progress=Silent())
    assert [item.reason for item in answer.skipped()] == ["no docker; no bubblewrap"]
    assert answer.counts()["passed"] == 0
    with pytest.raises(MissingError, match="no docker"):
        smoke.run_smoke(profile, layout, ["probe-cpu"], store, engine="docker", progress=Silent())
    with pytest.raises(InputError, match="no engine named"):
        smoke.run_smoke(profile, layout, ["probe-cpu"], store, engine="rkt", progress=Silent())
    with pytest.raises(InputError, match="no smoke list named"):
        smoke.run_smoke(profile, layout, ["nothing"], store, progress=Silent())
    with pytest.raises(InputError, match="names no smoke list"):
        smoke.run_smoke(profile, layout, [], store, progress=Silent())


@pytest.mark.integration
def test_a_whole_smoke_and_its_reuse(
    choice: Choice, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(smoke.FINDERS, "auto", (lambda: choice,))
    monkeypatch.setattr(smoke, "load_list", lambda _name: PLAN)
    layout, profile = tiny(tmp_path, secret_mode=0o644), load_profile("probe")
    first = smoke.run_smoke(profile, layout, ["tiny"], store, progress=Silent())
    assert [(run.uid, [item.result for item in run.results]) for run in first.runs] == [
        (0, ["passed", "passed", "passed"]),
        (65534, ["passed", "passed", "passed", "passed"]),
    ]
    assert first.engine == choice.name
    assert first.runs[1].results[1].detail == "uid 65534"
    assert not first.reused
    assert first.started.endswith("+00:00")
    assert first.machine is not None
    assert first.machine.cores >= 1
    assert not list((store.root / "tmp").iterdir())
    monkeypatch.setattr(smoke, "unpack_image", lambda *_args, **_more: pytest.fail("nothing is to be run again"))
    second = smoke.run_smoke(profile, layout, ["tiny"], store, progress=Silent())
    assert second.reused
    assert (second.runs, second.started, second.machine) == (first.runs, first.started, first.machine)
    image = read_layout(layout)
    os.truncate(image.blob(image.layers[0]), 10)
    with pytest.raises(DamagedImage, match="is damaged: it is missing"):
        smoke.run_smoke(profile, layout, ["tiny"], store, progress=Silent())


@pytest.mark.integration
def test_a_file_only_root_may_read_fails_the_smoke(
    choice: Choice, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(smoke.FINDERS, "auto", (lambda: choice,))
    monkeypatch.setattr(smoke, "load_list", lambda _name: PLAN)
    answer = smoke.run_smoke(load_profile("probe"), tiny(tmp_path), ["tiny"], store, progress=Silent())
    (finding,) = answer.findings()
    assert "etc/root-only" in finding.message
    assert not (store.root / "entries" / smoke.KIND).exists()


@pytest.mark.integration
def test_a_run_that_ends_early_is_a_failure_and_is_not_kept(
    choice: Choice, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(smoke.FINDERS, "auto", (lambda: choice,))
    monkeypatch.setattr(smoke, "load_list", lambda _name: PLAN)
    answer = smoke.run_smoke(load_profile("probe"), tiny(tmp_path, CRASHING), ["tiny"], store, progress=Silent())
    assert [item.result for item in answer.runs[0].results] == ["passed", "passed", "failed"]
    assert "status 7" in answer.runs[0].results[2].detail
    assert "fell over" in answer.runs[0].results[2].tail
    assert not (store.root / "entries" / smoke.KIND).exists()
