"""gpu_tests and stack_checks: programs that stand in for the real ones die, hang and lie; what is said of them."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

import pytest

from orbit.launch.preflight import gpu_tests
from orbit.launch.preflight.gpu_tests import Answer, Group, run_child, run_group, run_node
from orbit.launch.preflight.model import State
from orbit.launch.preflight.stack_checks import judge_answers, judge_group, measured_of
from tests.launch.preflight.made import only

SAY = "import json, os, sys, time\ndef say(**a): print(json.dumps(a), flush=True)\n"
TORCH = 'say(task="torch", problem="", facts={"version": "2", "cuda": "13.0", "devices": 1}, seconds=0.1)'


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put ``body`` in the place of a program."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def put(which: str, body: str) -> None:
        name = f"stand_in_{which.lower()}"
        lines = "\n".join(f"    {line}" for line in body.splitlines())
        (tmp_path / f"{name}.py").write_text(f"{SAY}def main():\n    order = json.load(sys.stdin)\n{lines}\n")
        monkeypatch.setattr(gpu_tests, which, name)

    return put


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed here")
def test_without_torch() -> None:
    found = run_child("cpu", ("memory",), limit_s=60)
    assert [answer.task for answer in found] == ["torch"]
    assert "No module named 'torch'" in found[0].problem
    assert only(judge_answers(found), "torch").state is State.FAILED


def test_the_test_at_which_it_dies_is_named(stand_in: Any) -> None:
    stand_in("CHILD", f'{TORCH}\nsay(task="memory", problem="", facts={{}}, seconds=1)\nos.abort()')
    found = {answer.task: answer for answer in run_child("cuda", ("memory", "matmul", "peers"), limit_s=60)}
    assert found["memory"].problem == ""
    assert "signal 6" in found["matmul"].problem
    assert found["peers"].problem == "not reached, for matmul did not end"


def test_the_test_at_which_it_hangs_is_named(stand_in: Any) -> None:
    stand_in("CHILD", f"{TORCH}\ntime.sleep(600)")
    found = {answer.task: answer for answer in run_child("cuda", ("memory",), limit_s=2)}
    assert "no answer within 2 s" in found["memory"].problem


def test_ranks_that_agree(stand_in: Any) -> None:
    stand_in("RING", 'print("NCCL version 2.30")\nsay(problem="", facts=order)')
    found = run_group(Group(local=2, nodes=3, node=1, meet="tcp://h:1", backend="gloo"), limit_s=60)
    assert found.problem == ""
    assert (found.facts["rank"], found.facts["world"], found.facts["meet"]) == (2, 6, "tcp://h:1")


def test_a_rank_that_dies_ends_the_others(stand_in: Any) -> None:
    stand_in("RING", 'if order["rank"] == 1: os.abort()\ntime.sleep(600)')
    began = time.monotonic()
    found = run_group(Group(local=3, backend="gloo"), limit_s=300)
    assert time.monotonic() - began < 120
    assert found.problem.startswith("rank 1: the process ended with signal 6")


def test_ranks_that_never_meet(stand_in: Any) -> None:
    stand_in("RING", "time.sleep(600)")
    assert "no end within 1 s" in run_group(Group(local=2, backend="gloo"), limit_s=1).problem


def test_a_whole_node(stand_in: Any) -> None:
    stand_in("CHILD", f'{TORCH}\nfor t in order["tasks"]: say(task=t, problem="", facts={{"t": 1}}, seconds=0)')
    stand_in("RING", 'say(problem="", facts={})')
    found = run_node("cpu", 0, limit_s=60, group_s=60, burn_in_s=1)
    assert [answer.task for answer in found] == ["torch", "memory", "matmul", "sharing", "all-reduce", "burn-in"]


# --- what is said of the answers --------------------------------------------------------------------------------------

PEERS = {"access": [[True, True], [True, True]], "all": True, "gigabytes_per_s": [], "slowest": 300.0}
SUMS = {"ranks": 8, "version": "2.30", "bus_gigabytes_per_s": 400.0}


@pytest.mark.parametrize(
    ("answer", "name", "state", "word"),
    [
        (Answer(task="matmul", problem="cuda:1: wrong"), "gpu-matmul", State.FAILED, "cuda:1"),
        (Answer(task="memory", problem="bad"), "gpu-memory", State.FAILED, "bad"),
        (Answer(task="memory", facts={"cuda:0": {"bytes": 8 << 30}}), "gpu-memory", State.PASSED, "8.59 GB"),
        (Answer(task="matmul", facts={"cuda:0": {"types": "float32"}}), "gpu-matmul", State.PASSED, "float32"),
        (Answer(task="sharing", problem="pidfd_getfd: no"), "cuda-ipc", State.WARNING, "pidfd_getfd"),
        (Answer(task="sharing", facts={"cuda:0": {}}), "cuda-ipc", State.PASSED, "cuda:0"),
        (Answer(task="peers", facts=PEERS), "peer-access", State.PASSED, "300 GB/s"),
        (Answer(task="peers", facts=PEERS | {"access": [[True, False], [True, True]]}), "peer-access", State.WARNING,
         "GPU 0 cannot read the memory of GPU 1"),
        (Answer(task="peers", problem="3 words"), "peer-access", State.FAILED, "3 words"),
        (Answer(task="all-reduce", problem="rank 1: late"), "all-reduce", State.FAILED, "rank 1"),
        (Answer(task="all-reduce", facts=SUMS | {"network": "IB"}),
         "all-reduce", State.PASSED, "network IB"),
        (Answer(task="burn-in", facts={"seconds": 60, "cuda:0": {"teraflops": 700.0}, "max_temperature": 70}),
         "burn-in", State.PASSED, "700 to 700 TFLOPS; max_temperature 70"),
        (Answer(task="burn-in", problem="differ"), "burn-in", State.FAILED, "differ"),
    ],
)  # fmt: skip
def test_answers_as_checks(answer: Answer, name: str, state: State, word: str) -> None:
    check = only(judge_answers([answer]), name)
    assert check.state is state
    assert word in check.message


def test_what_follows_for_transports() -> None:
    good = [Answer(task="sharing", facts={"cuda:0": {}}), Answer(task="peers", facts=PEERS)]
    assert measured_of(good) == {"cuda_ipc": True, "peer_access": True}
    assert measured_of([Answer(task="sharing", problem="no")]) == {"cuda_ipc": False}
    assert measured_of([Answer(task="sharing", facts={"cpu": {}})]) == {}, "main memory is no GPU's"


def test_across_nodes() -> None:
    assert judge_group(Answer(task="all-reduce", problem="late"), 4).state is State.FAILED
    facts = {"ranks": 32, "version": "2.30", "bus_gigabytes_per_s": 40.0}
    assert "4 nodes: 32 ranks" in judge_group(Answer(task="all-reduce", facts=facts), 4).message
