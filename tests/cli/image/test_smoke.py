"""``orbit image smoke``: exit codes and sentences; the stage behind it has its own tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.cli import main
from orbit.cli.image.smoke import ENGINES
from orbit.core.store import Store
from orbit.image.smoke.run import FINDERS
from tests.image.conftest import BuildSmall
from tests.image.conftest import build_small as build_small
from tests.image.world import PROFILE
from tests.writers.junit import check_junit
from tests.writers.tiny_image import file, write_image


def test_what_is_no_layout_is_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "cache"))
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main(["image", "smoke", str(empty), "--profile", "probe"]) == 2
    assert "not an OCI layout" in capsys.readouterr().err


def test_every_engine_can_be_named_and_the_report_written_for_a_ci_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert set(ENGINES) == set(FINDERS)
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(FINDERS, "auto", (lambda: "nothing here",))
    layout = write_image(tmp_path / "layout", [[file("f")]])
    junit = tmp_path / "smoke.xml"
    assert main(["image", "smoke", str(layout), "--profile", "probe", "--junit", str(junit)]) == 3
    (suite,) = check_junit(junit.read_bytes())
    assert [item.get("message") for item in suite.iter("skipped")] == ["nothing here"]
    assert "skipped smoke probe-cpu: nothing here" in capsys.readouterr().out


def test_the_profile_is_the_one_the_image_names(
    store: Store, build_small: BuildSmall, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ORBIT_CACHE", str(store.root))
    result = build_small(store)
    assert main(["image", "smoke", str(result.layout)]) == 2
    assert f"profile named {PROFILE.name!r}" in capsys.readouterr().err


def test_a_dry_run_says_what_would_run_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(FINDERS, "auto", (lambda: "nothing here",))
    layout = write_image(tmp_path / "layout", [[file("f")]])
    words = ["image", "smoke", str(layout), "--profile", "probe", "--dry-run"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "with nothing here\n  probe-cpu: " in said
    assert said.endswith("checks as each of uid 0, 65534\nnothing was run\n")
    assert main([*words, "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert (run["list"], run["uids"]) == ("probe-cpu", [0, 65534])
    assert not (tmp_path / "cache").exists()
