"""child, devices, peers, sharing, ring and load, with torch on processors; what is broken on purpose is found.

Skipped where torch is not installed. With GPUs: tests/gpu/preflight_truth.py.
"""

from __future__ import annotations

import functools
import json
import socket
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed here; tests/gpu/preflight_truth.py needs it, too")

from orbit.launch.preflight.across import check_across  # noqa: E402 - after the skip
from orbit.launch.preflight.aside import aside  # noqa: E402 - after the skip
from orbit.launch.preflight.gpu_tests import Group, run_group, run_node  # noqa: E402 - after the skip
from orbit.launch.preflight.model import Demand, State  # noqa: E402 - after the skip
from orbit.launch.preflight.stack import child, devices, load, ring, sharing  # noqa: E402 - after the skip

CPU = torch.device("cpu")


def test_a_node_of_processors_is_sound() -> None:
    found = {answer.task: answer for answer in run_node("cpu", 0, limit_s=300, group_s=300, burn_in_s=0.5)}
    assert {task: answer.problem for task, answer in found.items() if answer.problem} == {}
    assert set(found) == {"torch", "memory", "matmul", "sharing", "all-reduce", "burn-in"}
    assert found["all-reduce"].facts["ranks"] == 2


def test_wrong_memory_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = devices.pattern
    calls = iter(range(100))

    def wrong(*args: Any, **more: Any) -> Any:
        value = right(*args, **more)
        if next(calls) == 0:
            value[5] ^= 1
        return value

    monkeypatch.setattr(devices, "pattern", wrong)
    with pytest.raises(RuntimeError, match=r"1 of \d+ words"):
        devices.try_memory(CPU, 1.0, 8 << 10)


def test_a_wrong_product_is_found() -> None:
    wanted = devices.references("cpu")
    assert set(devices.try_matmul(CPU, wanted)["types"].split()) == set(devices.LARGEST)
    wanted["bfloat16"][2][3, 4] += 1
    with pytest.raises(RuntimeError, match=r"bfloat16: 1 of .* \[3, 4\] is"):
        devices.try_matmul(CPU, wanted)


@pytest.mark.parametrize("dtype", list(devices.LARGEST))
def test_the_numbers_are_exact_in_their_type(dtype: str) -> None:
    left, right = devices.matrices(dtype, 64, 1)
    most = int((left.abs() @ right.abs()).max())
    digits = {"float64": 53, "float32": 24, "bfloat16": 8, "float16": 11}[dtype]
    assert most <= 2**digits


def test_memory_that_is_only_copied_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second process reads right but writes elsewhere."""
    numbers = torch.arange(sharing.WORDS, dtype=torch.int64)
    monkeypatch.setattr(sharing, "MARK", -8)
    with pytest.raises(RuntimeError, match="a copy"):
        sharing.try_sharing(CPU, numbers)


def test_wrong_sums_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring, "total", lambda *_args: torch.zeros(1))
    order = {"rank": 0, "world": 1, "backend": "gloo", "meet": f"file://{tmp_path}/m", "device": 0, "limit_s": 60}
    with pytest.raises(RuntimeError, match="sums over 1 ranks are wrong"):
        ring.reduce(order)


@pytest.mark.parametrize("world", [1, 4, 5, 13, 51])
def test_the_sum_is_that_of_all_ranks(world: int) -> None:
    rows = [ring.part(rank, 7, CPU) for rank in range(world)]
    assert torch.equal(torch.stack(rows).sum(0).double(), ring.total(world, 7, CPU))
    assert int(torch.stack(rows).sum(0).max()) <= ring.NARROW
    assert "bfloat16" in ring.types_of(world)
    assert "bfloat16" not in ring.types_of(1000)


def test_a_rank_alone_ends() -> None:
    found = run_group(Group(local=1, nodes=2, node=1, meet="tcp://127.0.0.1:9", backend="gloo"), limit_s=5)
    assert found.problem


def test_two_nodes_add_up() -> None:
    """Two nodes of two processes each, that meet by address and port as the nodes of a job do."""
    with socket.socket() as asking:
        asking.bind(("127.0.0.1", 0))
        port = asking.getsockname()[1]
    where = {"address": "127.0.0.1", "port": port, "nodes": 2, "cpu": True}
    nodes = [aside(functools.partial(check_across, Demand(), node=node, **where)) for node in range(2)]
    checks = [node.value(400) for node in nodes]
    assert [check.state for check in checks] == [State.PASSED, State.PASSED], checks
    assert checks[1].found["ranks"] == "4"


def test_which_network(tmp_path: Path) -> None:
    log = tmp_path / "nccl"
    assert ring.network_of(log) == {}
    log.write_text("n1:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB\nn1:1:1 [0] NCCL INFO Using network IB\n")
    assert ring.network_of(log) == {"network": "IB"}


def test_a_load_that_computes_something_else() -> None:
    one = load.Load(CPU, 0.01)
    one.wrong = 3
    assert load.summary([{"temperature": 50}, {"temperature": 71, "clock_mhz": 1980}]) == {
        "max_temperature": 71, "min_clock_mhz": 1980,
    }  # fmt: skip


def test_what_a_test_raises_is_its_result(capsys: pytest.CaptureFixture[str]) -> None:
    child.say("memory", lambda: child.each([CPU], lambda _device: 1 / 0))  # type: ignore[arg-type, return-value]
    said = json.loads(capsys.readouterr().out)
    assert said["problem"] == "RuntimeError: cpu: division by zero"
