"""orbit cache gc: sizes and times as people write them, nothing goes before it is asked for, nobody else is at work."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from orbit.cli import main
from orbit.cli.cache.gc import parse_days, parse_size
from orbit.core.store import RECORD_NAME, Store
from orbit.errors import ExitCode, InputError
from orbit.kernels import plan as plans


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "store"))
    monkeypatch.delenv("ORBIT_SHARED", raising=False)
    monkeypatch.setattr(plans, "host_toolchain", lambda: "g++ 12.2.0")
    return Store(tmp_path / "store")


def old(store: Store, kind: str, number: int) -> Path:
    def work(folder: Path) -> dict[str, Any]:
        (folder / "x").write_bytes(bytes([number]) * 5000)
        return {}

    path = store.obtain(kind, {"n": number}, work).path
    os.utime(path / RECORD_NAME, (1, 1))
    return path


def test_what_is_old_goes_when_it_is_asked_for(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    layer, smoke = old(store, "layer", 1), old(store, "smoke", 2)
    assert main(["cache", "gc", "--dry-run"]) == ExitCode.OK
    assert "would be freed" in capsys.readouterr().out
    assert layer.exists()
    assert main(["cache", "gc", "--kind", "layer", "--json"]) == ExitCode.OK
    (gone,) = json.loads(capsys.readouterr().out)["remove"]
    assert (gone["kind"], gone["name"]) == ("layer", layer.name)
    assert (layer.exists(), smoke.exists()) == (False, True)
    assert main(["cache", "gc"]) == ExitCode.OK
    assert not smoke.exists()


def test_the_last_build_stays(store: Store) -> None:
    first, last = old(store, "env", 1), old(store, "env", 2)
    os.utime(last / RECORD_NAME, (2, 2))
    assert main(["cache", "gc"]) == ExitCode.OK
    assert (first.exists(), last.exists()) == (False, True)
    assert main(["cache", "gc", "--keep-last", "0"]) == ExitCode.OK
    assert not last.exists()


def test_another_orbit_at_work_is_waited_for(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    path = old(store, "layer", 1)
    with store.writer("another test"):
        assert main(["cache", "gc"]) == ExitCode.REFUSED
    assert "another test is running" in capsys.readouterr().err
    assert path.exists()


def test_the_shared_folder_is_cleaned_when_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cache", "gc", "--shared"]) == ExitCode.USAGE
    assert "ORBIT_SHARED" in capsys.readouterr().err
    unit = tmp_path / "shared" / "units" / "step" / "ab" / "abcd"
    unit.parent.mkdir(parents=True)
    unit.write_bytes(b"x")
    os.utime(unit, (1, 1))
    monkeypatch.setenv("ORBIT_SHARED", str(tmp_path / "shared"))
    assert main(["cache", "gc"]) == ExitCode.OK
    assert unit.exists()
    assert main(["cache", "gc", "--shared"]) == ExitCode.OK
    assert not unit.exists()


def test_sizes() -> None:
    assert parse_size(None) is None
    assert (parse_size("1K"), parse_size("1.5g")) == (1024, 3 * 2**29)
    with pytest.raises(InputError, match="not a size"):
        parse_size("much")


@pytest.mark.parametrize("days", [-1.0, float("nan")])
def test_what_is_no_time(days: float) -> None:
    assert parse_days(0.5, "--older-than") == 0.5
    with pytest.raises(InputError, match="--older-than"):
        parse_days(days, "--older-than")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--older-than", "-1"), "--older-than -1: not a time"),
        (("--keep-last", "-1"), "--keep-last -1: not a number"),
        (("--kind", "nonesuch"), "--kind nonesuch: nothing of that kind"),
    ],
)
def test_bad_words(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "gc", *words]) == ExitCode.USAGE
    assert said in capsys.readouterr().err
