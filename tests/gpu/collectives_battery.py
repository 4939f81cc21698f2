"""NCCL over all GPUs of a node, for :mod:`tests.gpu.slim_truth`: what every rank holds after each collective, as bits.

    python -m tests.gpu.collectives_battery nccl K/N | =CASE

Prints the lines of :mod:`tests.gpu.slim_battery`. A *setting* is an algorithm and a protocol that NCCL is told to use;
settings are dealt out over the parts, each with ranks of its own. NCCL has trees for all-reduce alone.
NVLink SHARP (``NCCL_NVLS_ENABLE``) and symmetric memory are left as the caller has them, and no case needs them.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tests.gpu.slim_battery import bits, mapped

SETTINGS = [f"{algorithm}.{protocol}" for algorithm in ("Ring", "Tree") for protocol in ("LL", "LL128", "Simple")]
SIZES = (3, 4099, 1 << 20)
"""Elements of a rank: less than a warp, odd, and more than any low-latency protocol is chosen for."""
TYPES = ("int8", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
OPS = ("SUM", "PRODUCT", "MIN", "MAX", "AVG")
RANK_S = 300


@dataclass(frozen=True, slots=True)
class Collectives:
    """The collectives of one rank, on tensors that are its own."""

    rank: int
    world: int

    def mine(self, name: str, count: int) -> Any:
        """``count`` numbers that no other rank has."""
        generator = torch.Generator().manual_seed(1000 * self.rank + count)
        dtype = getattr(torch, name)
        if dtype.is_floating_point:
            return torch.randn(count, generator=generator).to(dtype).cuda()
        return torch.randint(0, 100, (count,), generator=generator).to(dtype).cuda()

    def all_reduce(self, name: str, count: int, op: str) -> Any:
        """Everybody gets the result."""
        value = self.mine(name, count)
        dist.all_reduce(value, getattr(dist.ReduceOp, op))
        return value

    def reduce(self, name: str, count: int, op: str) -> Any:
        """The last rank gets the result."""
        value = self.mine(name, count)
        dist.reduce(value, self.world - 1, getattr(dist.ReduceOp, op))
        return value

    def reduce_scatter(self, name: str, count: int, op: str) -> Any:
        """Everybody gets a part of the result."""
        value = self.mine(name, count * self.world)
        found = value.new_empty(count)
        dist.reduce_scatter_tensor(found, value, getattr(dist.ReduceOp, op))
        return found

    def broadcast(self, name: str, count: int) -> Any:
        """What the last rank has."""
        value = self.mine(name, count)
        dist.broadcast(value, self.world - 1)
        return value

    def all_gather(self, name: str, count: int) -> Any:
        """What all have."""
        value = self.mine(name, count)
        found = value.new_empty(count * self.world)
        dist.all_gather_into_tensor(found, value)
        return found

    def all_to_all(self, name: str, count: int) -> Any:
        """A part from each: NCCL's send and receive."""
        value = self.mine(name, count * self.world)
        found = value.new_empty(count * self.world)
        dist.all_to_all_single(found, value)
        return found


def cases(rank: int, world: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every collective with every type and size it has."""
    with_ = Collectives(rank, world)
    for name, count in itertools.product(TYPES, SIZES):
        for reduction in (with_.all_reduce, with_.reduce, with_.reduce_scatter):
            for op in OPS:
                yield f"{reduction.__name__}.{name}.{count}.{op}", partial(reduction, name, count, op)
        for move in (with_.broadcast, with_.all_gather, with_.all_to_all):
            yield f"{move.__name__}.{name}.{count}", partial(move, name, count)


def rank_main(setting: str, only: str, rank: int, world: int, meet: str) -> int:
    """One rank of one setting: its lines go to stdout."""
    algorithm, protocol = setting.split(".")
    os.environ["NCCL_ALGO"], os.environ["NCCL_PROTO"] = algorithm, protocol
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"file://{meet}", rank=rank, world_size=world)
    for case, work in cases(rank, world):
        if (only and case != only) or (algorithm == "Tree" and not case.startswith("all_reduce")):
            continue
        try:
            found = bits(work())
        except torch.AcceleratorError:
            raise  # the device is lost: nothing after it would mean anything
        except Exception as error:  # noqa: BLE001 - what fails must fail in the same way in the other tree
            found = f"raises {type(error).__name__}"
        print(json.dumps({"case": f"{setting}.{case}", "bits": found}), flush=True)
    print(json.dumps({"mapped": mapped()}), flush=True)
    dist.destroy_process_group()
    return 0


def run_setting(setting: str, only: str, world: int) -> int:
    """All ranks of one setting; one line per case with what all of them hold. Returns the first bad exit status."""
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder, f"rank-{rank}") for rank in range(world)]
        ranks = []
        for rank, output in enumerate(outputs):
            command = [
                sys.executable, "-m", "tests.gpu.collectives_battery", "rank", setting, only, str(rank), str(world),
                f"{folder}/meet",
            ]  # fmt: skip
            with output.open("wb") as file:
                ranks.append(subprocess.Popen(command, stdout=file))
        try:
            ends = [process.wait(RANK_S) for process in ranks]
        finally:
            for process in ranks:
                process.kill()
        answers = [[json.loads(line) for line in output.read_text().splitlines()] for output in outputs]
    for lines in zip(*answers, strict=False):
        if "case" in lines[0]:
            kept = {"case": lines[0]["case"], "bits": " ".join(line["bits"] for line in lines)}
            kept["bits"] = lines[0]["bits"] if lines[0]["bits"].startswith("raises") else kept["bits"]
            print(json.dumps(kept), flush=True)
    libraries = sorted({path for lines in answers for line in lines for path in line.get("mapped", ())})
    print(json.dumps({"mapped": libraries}), flush=True)
    return next((end for end in ends if end), 0)


def main() -> int:
    """Run one part, one case, or (``rank``) one process of it."""
    if sys.argv[1] == "rank":
        setting, only, rank, world, meet = sys.argv[2:]
        return rank_main(setting, only, int(rank), int(world), meet)
    world = torch.cuda.device_count()
    chosen = sys.argv[2]
    if chosen.startswith("="):
        algorithm, protocol, case = chosen[1:].split(".", 2)
        return run_setting(f"{algorithm}.{protocol}", case, world)
    part, parts = map(int, chosen.split("/"))
    return max(run_setting(setting, "", world) for setting in SETTINGS[part::parts])


if __name__ == "__main__":
    sys.exit(main())
