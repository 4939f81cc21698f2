"""The machine in a report: what it says without a driver, with one, and that it never names anybody."""

from __future__ import annotations

import json
import platform
import socket
from pathlib import Path
from typing import Any

import pytest

from orbit.errors import CommandFailed
from orbit.smoke import machine
from orbit.smoke.machine import Gpu, MachineFacts, driver_release, look, main, started_now
from orbit.smoke.model import CheckError


def test_this_machine_is_described_without_its_name() -> None:
    found = look()
    assert found.cores >= 1
    assert found.memory_bytes > 1 << 28
    assert found.system.startswith("Linux ")
    assert platform.machine() in found.system
    assert socket.gethostname() not in (found.system, found.cpu)
    assert bool(found.gpus) is bool(found.driver_cuda)


class Answer:
    def __init__(self, stdout: bytes) -> None:
        self.stdout = stdout


@pytest.mark.parametrize("stdout", [b"", b"crashed", b"[]", b"{}"])
def test_a_driver_that_crashes_is_a_machine_without_gpus(stdout: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "run", lambda *_a, **_k: Answer(stdout))
    assert (look().gpus, look().driver) == ((), "")


def test_a_driver_that_hangs_is_a_machine_without_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_a: Any, **_k: Any) -> None:
        raise CommandFailed("no end after 60 s", argv=[], status=-9, tail="")

    monkeypatch.setattr(machine, "run", late)
    assert look().gpus == ()


def test_what_the_driver_says_arrives(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    said = {"device": "NVIDIA H200", "capability": "9.0", "memory_bytes": 5, "driver_cuda": "13.0"}
    monkeypatch.setattr(machine, "device_count", lambda: 2)
    monkeypatch.setattr(machine, "describe", lambda _index: said)
    monkeypatch.setattr(machine, "driver_release", lambda: "580.65.06")
    main()
    text = capsys.readouterr().out
    monkeypatch.setattr(machine, "run", lambda *_a, **_k: Answer(text.encode()))
    found = look()
    assert found.gpus == (Gpu(name="NVIDIA H200", capability="9.0", memory_bytes=5),) * 2
    assert (found.driver, found.driver_cuda) == ("580.65.06", "13.0")


@pytest.mark.parametrize("error", [OSError("libcuda.so.1: cannot open"), CheckError("cuInit answers with 999")])
def test_without_a_driver_the_child_says_so(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> int:
        raise error

    monkeypatch.setattr(machine, "device_count", fails)
    monkeypatch.setattr(machine, "driver_release", lambda: "")
    main()
    assert json.loads(capsys.readouterr().out) == {"driver": "", "driver_cuda": "", "gpus": []}


def test_the_release_is_the_kernel_modules_where_no_library_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_name: str) -> None:
        raise OSError("not here")

    monkeypatch.setattr(machine.ctypes, "CDLL", absent)
    monkeypatch.setattr(machine, "DRIVER_FILE", tmp_path / "version")
    assert driver_release() == ""
    (tmp_path / "version").write_text("580.65.06\n")
    assert driver_release() == "580.65.06"


def test_the_time_has_a_zone() -> None:
    assert started_now().endswith("+00:00")
    assert MachineFacts(system="s", cpu="", cores=1, memory_bytes=1).gpus == ()
