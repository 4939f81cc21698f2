"""driver, gpu_facts, gpus, visible and coverage: made-up GPUs, and a driver that is not there, hangs or dies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orbit.launch.preflight import driver as asked
from orbit.launch.preflight import gpu_facts
from orbit.launch.preflight.coverage import Coverage, judge_coverage, read_coverage, runs_on
from orbit.launch.preflight.gpu_facts import Card, Device, Driver, ask_driver, module_release
from orbit.launch.preflight.gpus import judge_gpus
from orbit.launch.preflight.model import Check, Demand, State
from orbit.launch.preflight.visible import judge_visible, match
from tests.launch.preflight.made import GIB, RULES, UUIDS, Machine, driver, only

CU130 = Coverage(profile="cu130", cuda="13.0", targets=(("h100", "9.0"), ("b200", "10.0")))
CU128 = replace(CU130, profile="cu128", cuda="12.8")


def judge(name: str, found: Driver, *, gpus: int = 2, coverage: Coverage = CU130, **env: str) -> Check:
    return only(judge_gpus(found, coverage, Demand(gpus=gpus), RULES, env), name)


# --- the driver's release ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "coverage", "state"),
    [
        ("525.60.13", CU130, State.FAILED),
        ("535.104.05", CU130, State.FAILED),
        ("570.86.10", CU130, State.FAILED),
        ("580.65.06", CU130, State.PASSED),
        ("590.1", CU130, State.PASSED),
        ("470.57.02", CU128, State.FAILED),
        ("525.60.13", CU128, State.WARNING),
        ("535.104.05", CU128, State.WARNING),
        ("570.86.10", CU128, State.PASSED),
        ("580.65.06", CU128, State.PASSED),
    ],
)
def test_driver_against_cuda(release: str, coverage: Coverage, state: State) -> None:
    check = judge("driver", driver(release=release), coverage=coverage)
    assert check.state is state
    assert release in check.message
    if state is State.FAILED:
        assert f"needs {'580' if coverage is CU130 else '525'} or newer" in check.message


def test_every_release_of_a_profile_has_a_row() -> None:
    assert RULES.need_of("13.7") is not None
    assert RULES.need_of("11.8") is None


# --- no driver --------------------------------------------------------------------------------------------------------


def test_no_driver_at_all() -> None:
    none = Driver(missing="libcuda.so.1: cannot open shared object file", status=-1)
    check = judge("driver", none)
    assert check.message == "there is no NVIDIA driver in this container"
    assert "--gpus all" in check.fix
    assert "runtimeClass" in check.fix
    assert judge("gpus", none).state is State.FAILED
    assert judge("driver", none, gpus=0).state is State.SKIPPED


def test_a_driver_whose_library_is_not_mounted() -> None:
    check = judge("driver", Driver(missing="no", status=-1, module="580.65.06"))
    assert check.state is State.FAILED
    assert "NVIDIA_DRIVER_CAPABILITIES" in check.fix


@pytest.mark.parametrize(
    ("status", "word"), [(100, "NO_DEVICE"), (999, "UNKNOWN"), (46, "another process"), (7, "error 7")]
)
def test_a_driver_that_does_not_start(status: int, word: str) -> None:
    check = judge("driver", driver(status=status, devices=()))
    assert check.state is State.FAILED
    assert word in check.message


# --- a libcuda that is not the driver's -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "state", "word"),
    [
        ({}, State.PASSED, "libcuda.so.580.65.06"),
        ({"status": 803, "devices": ()}, State.FAILED, "another release than the driver"),
        ({"status": 804, "devices": ()}, State.FAILED, "which this GPU does not allow"),
        ({"library": "/usr/local/cuda/compat/libcuda.so.590.1"}, State.WARNING, "compat"),
        ({"library": "/opt/x/libcuda.so.535.1.2"}, State.WARNING, "not the driver's own"),
    ],
)
def test_the_library(values: dict[str, Any], state: State, word: str) -> None:
    check = judge("cuda-library", driver(**values))
    assert check.state is state
    assert word in check.message


# --- fabric -----------------------------------------------------------------------------------------------------------


def said(status: int) -> dict[str, Any]:
    cuda = {"missing": "", "status": status, "release": "13.0", "devices": []}
    return {"cuda": cuda, "nvml": {"missing": "", "status": 0, "devices": []}, "mapped": "", "xids": []}


def ask(tmp_path: Path, statuses: list[int]) -> tuple[Driver, list[float]]:
    """A driver with these answers, one after another; a clock that only sleeping moves."""
    slept: list[float] = []
    left = list(statuses)
    found = ask_driver(
        tmp_path, RULES.times, ask=lambda _limit: said(left.pop(0) if len(left) > 1 else left[0]),
        sleep=slept.append, clock=lambda: sum(slept),
    )  # fmt: skip
    return found, slept


def test_a_fabric_that_becomes_ready(tmp_path: Path) -> None:
    found, slept = ask(tmp_path, [802, 802, 0])
    assert (found.status, len(slept)) == (0, 2)


def test_a_fabric_that_never_does(tmp_path: Path) -> None:
    found, slept = ask(tmp_path, [802])
    assert sum(slept) <= RULES.times.fabric_s
    check = judge("fabric", found)
    assert check.state is State.FAILED
    assert "NVSwitch fabric not ready after" in check.message
    assert "nvidia-fabricmanager" in check.fix


# --- asking -----------------------------------------------------------------------------------------------------------


def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    (tmp_path / "stand_in.py").write_text(f"import os, sys, time\ndef main():\n    {body}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(gpu_facts, "PROGRAM", "stand_in")


def test_a_driver_that_crashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, monkeypatch, "os.abort()")
    found = ask_driver(tmp_path, RULES.times)
    assert "signal 6" in found.problem
    assert judge("driver", found).state is State.FAILED


def test_a_driver_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, monkeypatch, "time.sleep(600)")
    found = ask_driver(tmp_path, msgspec.structs.replace(RULES.times, driver_s=0.5))
    assert "no end after 0.5 s" in found.problem


def test_the_program_runs_here() -> None:
    """On a machine without a driver it says so; on one with GPUs it lists them."""
    found = ask_driver(Path("/"), RULES.times)
    assert not found.problem
    assert bool(found.missing) or found.status or found.devices


def test_the_program_in_this_process(capsys: pytest.CaptureFixture[str]) -> None:
    asked.main()
    assert msgspec.json.decode(capsys.readouterr().out).keys() == {"cuda", "nvml", "xids", "mapped"}
    assert isinstance(asked.sample_devices(), list)


def test_the_kernels_log(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_bytes(b"4,1,1,-;NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.\n6,2,2,-;other\n")
    assert asked.read_xids(str(log)) == [("PCI:0000:1b:00", 79)]
    assert asked.read_xids(str(tmp_path / "none")) == []


def test_which_file_is_mapped() -> None:
    assert asked.mapped("libc.so.6").startswith("/")
    assert asked.mapped("libnothing.so.1") == ""


def test_the_modules_release(tmp_path: Path) -> None:
    text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 07:16:59 UTC 2025\nGCC version:\n"
    assert module_release(Machine(tmp_path).write("/proc/driver/nvidia/version", text).root) == "580.65.06"
    assert module_release(tmp_path / "none") == ""


# --- how many, and are they sound -------------------------------------------------------------------------------------


def test_count() -> None:
    assert judge("gpus", driver()).state is State.PASSED
    few = judge("gpus", driver(), gpus=8)
    assert (few.state, few.message) == (State.FAILED, "2 GPUs can be used, 8 are needed")
    lost = driver(devices=driver().devices[:1], cards=(driver().cards[0], Card(index=1, status=15)))
    assert "GPU 1 does not answer (NVML error 15)" in judge("gpus", lost).message
    mixed = (*driver().devices[:1], replace(driver().devices[0], name="NVIDIA A100"))
    assert judge("gpus", driver(devices=mixed)).state is State.WARNING


@pytest.mark.parametrize(
    ("values", "state", "word"),
    [
        ({}, State.PASSED, "without uncorrected"),
        ({"ecc": 3}, State.FAILED, "3 memory errors"),
        ({"rows_failed": 1}, State.FAILED, "could not be replaced"),
        ({"rows_pending": 1}, State.FAILED, "next reset"),
        ({"used": 70 * GIB}, State.WARNING, "70 GiB of 140 GiB are in use"),
        ({"slowed": True, "temperature": 91}, State.WARNING, "91 C"),
        ({"compute_mode": 3}, State.WARNING, "one process at a time"),
        ({"mig": 1}, State.WARNING, "MIG"),
        ({"links": 12}, State.WARNING, "12 NVLinks are up, another GPU here has 18"),
        ({"status": 18}, State.FAILED, "NVML error 18"),
    ],
)
def test_health(values: dict[str, Any], state: State, word: str) -> None:
    cards = (replace(driver().cards[0], links=18), replace(driver().cards[1], **({"links": 18} | values)))
    check = judge("gpu-health", driver(cards=cards))
    assert check.state is state
    assert word in check.message


def test_what_the_kernel_said() -> None:
    check = judge("gpu-health", driver(xids=(("PCI:0000:1b:00", 79), ("PCI:0000:1b:00", 13))))
    assert check.state is State.WARNING
    assert "Xid 79 of PCI:0000:1b:00: the GPU has fallen off the bus" in check.message


# --- CUDA_VISIBLE_DEVICES ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "index"),
    [
        ("0", 0),
        ("1", 1),
        ("2", None),
        ("GPU-1a2b3c4d", 0),
        ("GPU-5e", 1),
        ("5E6F", 1),
        ("GPU-", None),
        ("GPU-77", None),
    ],
)
def test_ids_short_and_long(word: str, index: int | None) -> None:
    assert match(word, UUIDS) == index


@pytest.mark.parametrize(
    ("value", "state", "word"),
    [
        ("0,1", State.PASSED, "names 2 of 2"),
        ("GPU-1a2b3c4d,GPU-5e6f7a8b", State.PASSED, "names 2 of 2"),
        ("", State.FAILED, "shows no GPU to this job, 2 are needed"),
        ("-1", State.FAILED, "shows no GPU"),
        ("GPU-deadbeef", State.FAILED, "'GPU-deadbeef' is no GPU of this container"),
        ("0,7", State.FAILED, "'7' is no GPU"),
        ("0,GPU-1a2b3c4d", State.FAILED, "twice"),
        ("MIG-1234", State.WARNING, "slices"),
    ],
)
def test_the_variable(value: str, state: State, word: str) -> None:
    check = judge_visible({"CUDA_VISIBLE_DEVICES": value}, UUIDS, 2)
    assert check.state is state
    assert word in check.message
    assert judge_visible({"CUDA_VISIBLE_DEVICES": value}, UUIDS, 0).state is State.SKIPPED


def test_no_variable_and_nothing_known() -> None:
    assert judge_visible({}, UUIDS, 2).state is State.PASSED
    assert judge_visible({"CUDA_VISIBLE_DEVICES": "GPU-1"}, (), 2).state is State.SKIPPED


# --- coverage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arch", "capability", "how"),
    [("sm_90a", "9.0", "sass"), ("sm_90a", "9.1", ""), ("sm_90", "9.1", "sass"), ("sm_90", "10.0", ""),
     ("sm_80", "8.9", "sass"),
     ("sm_100f", "10.3", "sass"), ("compute_80", "9.0", "ptx"), ("compute_90a", "10.0", ""), ("compute_90", "8.9", ""),
     ("sm_120", "12.0", "sass"), ("nonsense", "9.0", "")],
)  # fmt: skip
def test_what_runs_where(arch: str, capability: str, how: str) -> None:
    assert runs_on(arch, capability) == how


def test_devices_against_the_profile() -> None:
    h200 = driver().devices
    assert judge_coverage(CU130, h200).state is State.PASSED
    check = judge_coverage(CU130, (Device(name="NVIDIA A100", uuid="", capability="8.0", memory=0),))
    assert check.state is State.FAILED
    assert "GPU 0 is a NVIDIA A100 (8.0), the image (cu130) is for h100 (9.0), b200 (10.0)" in check.message
    bare = replace(CU130, kernels={"deep-ep": ("sm_100a",), "x": ("sm_90a",)})
    assert "deep-ep has no machine code for 9.0" in judge_coverage(bare, h200).message
    assert judge_coverage(Coverage(reason="no environment"), h200).state is State.SKIPPED


def test_the_record_of_an_environment(tmp_path: Path) -> None:
    assert "no environment of Orbit" in read_coverage(tmp_path).reason
    record = tmp_path / "share/orbit/environment.json"
    record.parent.mkdir(parents=True)
    record.write_bytes(b"{")
    assert read_coverage(tmp_path).reason
    found = [{"file": "a.so", "coverage": {}, "images": {"sm_90a": 3, "compute_90": 1}, "glibc": ""}]
    record.write_bytes(msgspec.json.encode({"profile": "cu130", "kernels": [{"dist": "k", "found": found}]}))
    coverage = read_coverage(tmp_path)
    assert (coverage.profile, coverage.cuda) == ("cu130", "13.0")
    assert coverage.kernels == {"k": ("compute_90", "sm_90a")}
