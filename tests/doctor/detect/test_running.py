"""What runs and what was left behind: from made-up facts; and the module of what detectors say (seen)."""

from __future__ import annotations

from typing import Any

import pytest

from orbit.doctor.catalog import Certainty
from orbit.doctor.detect import DETECTORS
from orbit.doctor.detect.seen import likely, possible
from orbit.doctor.facts import Facts, Lock, Process, RayAddress


def process(name: str, state: str = "S", parent: int = 1, **values: Any) -> Process:
    return Process(pid=77, parent=parent, state=state, name=name, age_s=3600, **values)


def address(answer: str) -> RayAddress:
    return RayAddress(source="RAY_ADDRESS", address="10.0.0.4:6379", answer=answer)


def seen(detector: str, **values: Any) -> list[str]:
    return [each.message for each in DETECTORS[detector](Facts(**values))]


OLD_LOCK = Lock(path="/x/torch_extensions/foo/lock", age_s=7200)


@pytest.mark.parametrize(
    ("detector", "values", "word"),
    [
        ("stuck_processes", {"processes": (process("python3.12", "D", waits_s=1.0),)}, "77 python3.12"),
        ("left_over_processes", {"processes": (process("ray::Actor"),)}, "without a parent"),
        ("left_over_processes", {"processes": (process("raylet", "Z", parent=5),)}, "not buried"),
        ("ray_ports_taken", {"listening": (22, 6379)}, "6379"),
        ("ray_address_stale", {"ray": (address("refused"),)}, "nothing listens"),
        ("ray_address_stale", {"ray": (address("late"),)}, "late"),
        ("stale_locks", {"locks": (OLD_LOCK,)}, "120 min old"),
        ("killed_for_memory", {"oom_kills": 3}, "3 processes"),
        ("first_process_is_a_shell", {"first_process": ("/bin/bash", "-c", "python train.py")}, "process 1"),
        ("docker_does_not_answer", {"docker": "Cannot connect"}, "Cannot connect"),
    ],
)
def test_it_is_seen(detector: str, values: dict[str, Any], word: str) -> None:
    (message,) = seen(detector, **values)
    assert word in message


@pytest.mark.parametrize(
    ("detector", "values"),
    [
        ("stuck_processes", {"processes": (process("python3.12", "D"),)}),
        ("left_over_processes", {"processes": (process("ray::Actor", parent=5), process("raylet"))}),
        ("left_over_processes", {"processes": (process("sh", "Z"),)}),
        ("ray_ports_taken", {"listening": (22, 63790)}),
        ("ray_address_stale", {"ray": (address("open"),)}),
        ("stale_locks", {"locks": (Lock(path="/x/lock", age_s=5),)}),
        ("stale_locks", {"locks": (OLD_LOCK,), "processes": (process("nvcc", parent=9),)}),
        ("first_process_is_a_shell", {"first_process": ("/usr/bin/tini", "--", "python")}),
        ("first_process_is_a_shell", {"first_process": ("bash",)}),
    ],
)
def test_its_near_miss_is_not(detector: str, values: dict[str, Any]) -> None:
    assert seen(detector, **values) == []


def test_many_processes_are_told_in_short() -> None:
    (message,) = seen("left_over_processes", processes=tuple(process("ray::Actor") for _ in range(9)))
    assert "and 5 more" in message


def test_how_sure_is_said_by_name() -> None:
    assert (likely("m").certainty, possible("m").certainty) == (Certainty.LIKELY, Certainty.POSSIBLE)
