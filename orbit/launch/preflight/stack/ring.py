"""One rank of an all-reduce: meets the others, adds up, compares every number, measures.

A program of its own. Values are whole numbers whose sums are exact in every type used, so neither the order matters nor
the algorithm nor the transport; one wrong bit fails.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

ELEMENTS = {"nccl": 1 << 20, "gloo": 1 << 14}
RATE_BYTES = {"nccl": 256 << 20, "gloo": 4 << 20}
REPEATS = 5
PERIOD = 5
NARROW = 256
"""Whole numbers up to this are bfloat16 values, each of them."""
NETWORK = re.compile(r"Using network (\w+)|NET/(IB|Socket)")


def main() -> None:
    """Order: ``rank``, ``world``, ``backend``, ``meet`` (tcp://... or file://...), ``device``, ``limit_s``."""
    order = json.load(sys.stdin)
    answer: dict[str, Any] = {"problem": "", "facts": {}}
    try:
        with tempfile.TemporaryDirectory(prefix="ring-") as folder:
            log = Path(folder, "nccl")
            if order["backend"] == "nccl" and "NCCL_DEBUG" not in os.environ:
                os.environ |= {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET", "NCCL_DEBUG_FILE": str(log)}
            answer["facts"] = reduce(order)
            answer["facts"] |= network_of(log)
    except Exception as error:  # noqa: BLE001 - whatever torch or NCCL raises is the result
        answer["problem"] = f"{type(error).__name__}: {' '.join(str(error).split())[:600]}"
    sys.stdout.write(json.dumps(answer) + "\n")


def reduce(order: dict[str, Any]) -> dict[str, Any]:
    """Meet, add up in all types, compare, measure the rate."""
    backend, rank, world = order["backend"], order["rank"], order["world"]
    device = torch.device("cuda", order["device"]) if backend == "nccl" else torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(device)
    limit = dt.timedelta(seconds=order["limit_s"])
    began = time.monotonic()
    dist.init_process_group(backend, init_method=order["meet"], rank=rank, world_size=world, timeout=limit)
    try:
        sums = {}
        for name in types_of(world):  # all before one is judged: a rank that stops would leave the others waiting
            mine = part(rank, ELEMENTS[backend], device).to(getattr(torch, name))
            dist.all_reduce(mine)
            sums[name] = mine
        met = time.monotonic() - began
        rate = _rate(backend, world, device)
        wrong = {name: int((value.double() != total(world, len(value), device)).sum()) for name, value in sums.items()}
    finally:
        dist.destroy_process_group()
    bad = {name: count for name, count in wrong.items() if count}
    if bad:
        raise RuntimeError(f"sums over {world} ranks are wrong: {bad} of {ELEMENTS[backend]} elements")
    version = ".".join(map(str, torch.cuda.nccl.version())) if backend == "nccl" else torch.__version__
    return {"version": version, "ranks": world, "types": " ".join(sums), "met_s": round(met, 2), **rate}


def types_of(world: int) -> tuple[str, ...]:
    """The types in which the sums of ``world`` ranks are exact."""
    return ("float32", "int64", *(("bfloat16",) if world * PERIOD <= NARROW else ()))


def part(rank: int, elements: int, device: Any) -> Any:
    """What ``rank`` brings: whole numbers from 1 to :data:`PERIOD`, another row for each of five ranks."""
    return (torch.arange(elements, device=device) * 3 + rank) % PERIOD + 1


def total(world: int, elements: int, device: Any) -> Any:
    """The sum over all ranks, float64."""
    found = torch.zeros(elements, dtype=torch.float64, device=device)
    for residue in range(PERIOD):
        found += part(residue, elements, device) * len(range(residue, world, PERIOD))
    return found


def network_of(log: Path) -> dict[str, str]:
    """Which network NCCL says it uses between nodes; nothing where it wrote no log."""
    try:
        said = log.read_text(errors="replace")
    except OSError:
        return {}
    found = [match[1] or match[2] for match in NETWORK.finditer(said)]
    return {"network": found[-1]} if found else {}


def _rate(backend: str, world: int, device: Any) -> dict[str, float]:
    """Bytes of a rank by time, and what a link carries of that (nccl-tests, PERFORMANCE.md: times 2 (n - 1) / n)."""
    size = RATE_BYTES[backend]
    values = torch.ones(size // 4, dtype=torch.float32, device=device)
    dist.all_reduce(values)
    _wait(device)
    began = time.monotonic()
    for _ in range(REPEATS):
        dist.all_reduce(values)
    _wait(device)
    rate = REPEATS * size / (time.monotonic() - began) / 1e9
    return {"gigabytes_per_s": round(rate, 2), "bus_gigabytes_per_s": round(rate * 2 * (world - 1) / world, 2)}


def _wait(device: Any) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
