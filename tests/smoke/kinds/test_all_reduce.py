"""The all-reduce check: its numbers by hand, and whole runs with a stand-in for torch's collectives on files."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from orbit.smoke.kinds import all_reduce
from orbit.smoke.model import CheckError, Context

FAKE = """
import json, os, pathlib, time
float32 = bfloat16 = int64 = "whole"
__version__ = "2.0"
def device(kind, index=0): return kind
class Tensor:
    def __init__(self, values): self.values = list(values)
    def tolist(self): return self.values
def tensor(values, dtype, device): return Tensor(values)
"""
DISTRIBUTED = """
import json, os, pathlib, time
state = {"round": 0}
def init_process_group(backend, init_method, rank, world_size):
    state.update(folder=pathlib.Path(init_method.removeprefix("file://")).parent, rank=rank, world=world_size)
def all_reduce(mine):
    name = lambda rank: state["folder"] / f"part-{state['round']}-{rank}"
    name(state["rank"]).with_suffix(".new").write_text(json.dumps(mine.values))
    name(state["rank"]).with_suffix(".new").rename(name(state["rank"]))
    while not all(name(rank).exists() for rank in range(state["world"])): time.sleep(0.01)
    rows = [json.loads(name(rank).read_text()) for rank in range(state["world"])]
    mine.values = [sum(column) for column in zip(*rows)]
    if os.environ.get("DEATH") == str(state["rank"]): os._exit(9)
    if os.environ.get("FAULT") == str(state["rank"]): mine.values[5] += 1
    state["round"] += 1
def destroy_process_group(): pass
"""


@pytest.fixture
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch/distributed").mkdir(parents=True)
    (tmp_path / "torch/__init__.py").write_text(FAKE)
    (tmp_path / "torch/distributed/__init__.py").write_text(DISTRIBUTED)
    root = Path(__file__).resolve().parents[3]
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{root}")


def run(gpus: int) -> dict[str, object]:
    return all_reduce.check_all_reduce({"gpus": gpus, "elements": 67, "backend": "gloo"}, Context())


def bfloat16(value: float) -> float:
    """Rounded down to 8 bits of significand; whole numbers up to 256 must come out as they went in."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    (back,) = struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))
    return float(back)


@pytest.mark.parametrize("world", [2, 3, 8, 16, 256])
def test_every_partial_sum_is_exact_in_bfloat16(world: int) -> None:
    rows = [all_reduce.pattern(rank, world, 1000) for rank in range(world)]
    assert all(value >= 1 for row in rows for value in row)
    most = max(all_reduce.total(world, 1000))
    assert most <= all_reduce.EXACT_LIMIT
    assert all(bfloat16(value) == value for value in range(1, most + 1))
    if world < 100:
        assert rows[0] != rows[1]


def test_more_ranks_than_can_be_added_exactly() -> None:
    with pytest.raises(CheckError, match="257 ranks"):
        all_reduce.pattern(0, 257, 1)


def test_all_ranks_hold_the_sum(torch: None) -> None:
    facts = run(3)
    assert facts["ranks"] == 3
    assert facts["dtypes"] == ["float32", "bfloat16", "int64"]


def test_one_wrong_element_on_one_rank_fails(torch: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULT", "1")
    with pytest.raises(CheckError, match=r"rank 1: CheckError: float32: 1 sums are wrong; element 5 is \d+ instead of"):
        run(2)


def test_a_rank_that_dies_ends_the_others(torch: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEATH", "1")
    with pytest.raises(CheckError, match="rank 1: ended with status 9 without an answer"):
        run(3)


def test_one_device_adds_nothing_up() -> None:
    with pytest.raises(CheckError, match="nothing to add up"):
        run(1)
