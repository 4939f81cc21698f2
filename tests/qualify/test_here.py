"""Recording here: without torch it says what to do; a process that dies is told by its end."""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.errors import MissingError
from orbit.qualify import here
from orbit.qualify.here import device_kind, record_here, start_process
from orbit.qualify.options import add_options
from orbit.qualify.records import Settings
from orbit.qualify.trials import Order
from tests.qualify.toy import CASES, Toy, tiny

without_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed here")


def options(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return parser.parse_args(argv)


def order(folder: Path) -> Order:
    return Order(definition=tiny(), settings=Settings(), kind="cpu", cases=tuple(CASES), folder=str(folder))


@without_torch
def test_without_torch_the_fix_names_an_environment(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="No module named 'torch'") as caught:
        device_kind("auto")
    assert "--prefix" in caught.value.fix
    with pytest.raises(MissingError, match="No module named 'torch'"):
        record_here(options("--device", "cpu", "--out", str(tmp_path / "r.json")), Silent())
    assert list(tmp_path.iterdir()) == []


@without_torch
def test_a_process_that_fails_is_told_by_its_last_line(tmp_path: Path) -> None:
    assert start_process(order(tmp_path)) == "status 1: ModuleNotFoundError: No module named 'torch'"


def test_a_process_that_does_not_end_or_is_killed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "own_python", lambda _module: ["sleep", "60"])
    monkeypatch.setattr(here, "TIMEOUT_S", 0.2)
    assert "no end after 0.2 s" in start_process(order(tmp_path))
    monkeypatch.setattr(here, "TIMEOUT_S", 60)
    monkeypatch.setattr(here, "own_python", lambda _module: ["sh", "-c", "kill -SEGV $$"])
    assert start_process(order(tmp_path)) == "signal 11"


def test_the_record_is_written_where_it_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "start_process", Toy())
    out = tmp_path / "r.json"
    record = record_here(options("--device", "cpu", "--out", str(out), "--path", "sdpa"), Silent())
    assert record.verdict == "passed"
    assert out.is_file()
    assert out.with_suffix(".tensors").is_file()
