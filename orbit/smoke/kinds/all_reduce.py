"""Whether NCCL adds up over the GPUs of this node: every rank must hold the exact sum.

Values are whole numbers small enough for bfloat16 to add without rounding, so that the result does not depend on the
order, the algorithm or the transport NCCL takes; one wrong bit fails.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from orbit.core.proc import Stop, run
from orbit.errors import CommandFailed
from orbit.smoke.kinds.device import device_count
from orbit.smoke.model import CheckError, Context

DTYPES = ("float32", "bfloat16", "int64")
EXACT_LIMIT = 256
"""Whole numbers up to this are bfloat16 values, each of them (8 bits of significand)."""
RANK_S = 240.0
WORKER = "from orbit.smoke.kinds.all_reduce import worker; worker()"


def check_all_reduce(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """All-reduce over all devices (or the first ``gpus``) of ``elements`` values in float32, bfloat16 and int64.

    Each rank is a process with a device of its own. ``backend``: nccl, unless the parameters say otherwise.
    """
    del context
    backend = str(parameters.get("backend", "nccl"))
    count = int(parameters.get("gpus", 0)) or device_count()
    if count < 2:
        raise CheckError(f"{count} device: nothing to add up")
    stop = Stop()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(count) as pool:
        order = {"world": count, "elements": int(parameters["elements"]), "backend": backend, "folder": folder}
        answers = list(pool.map(lambda rank: _rank(order, rank, stop), range(count)))
    problems = [f"rank {rank}: {answer['error']}" for rank, answer in enumerate(answers) if answer["error"]]
    if problems:
        raise CheckError("; ".join(problems))
    facts = answers[0]["facts"]
    return {"summary": f"{count} ranks hold the exact sum ({backend} {facts['version']})", "ranks": count, **facts}


def _rank(order: Mapping[str, Any], rank: int, stop: Stop) -> dict[str, Any]:
    """Start one rank and read its answer. One that dies ends the others, which would wait for it in vain."""
    log = Path(order["folder"]) / f"log-{rank}"
    answer = Path(order["folder"]) / f"answer-{rank}"
    try:
        with stop.covers():
            done = run(
                [sys.executable, "-P", "-c", WORKER],
                doing=f"rank {rank}",
                env=dict(os.environ),
                stdin=json.dumps({**order, "rank": rank}).encode(),
                timeout_s=RANK_S,
                log=log,
                check=False,
            )
        ending = f"ended with status {done.returncode} without an answer"
    except CommandFailed:
        ending = f"no end after {RANK_S:.0f} s"
    except KeyboardInterrupt:
        if not stop.stopped:
            raise
        ending = "was ended, for another one had died"
    if log.is_file():
        print(log.read_text(errors="replace"))
    if not answer.is_file():
        stop.now()
        return {"error": ending}
    found: dict[str, Any] = json.loads(answer.read_text())
    return found


def worker() -> None:
    """One rank; the order comes as JSON on stdin."""
    order = json.load(sys.stdin)
    answer: dict[str, Any] = {"error": "", "facts": {}}
    try:
        answer["facts"] = reduce(order)
    except Exception as error:  # noqa: BLE001 - whatever torch or NCCL raises is the result
        answer["error"] = f"{type(error).__name__}: {' '.join(str(error).split())}"
    Path(order["folder"], f"answer-{order['rank']}").write_text(json.dumps(answer))


def reduce(order: Mapping[str, Any]) -> dict[str, Any]:
    """Add up over all ranks and compare; a file is where they meet, so no port is taken and no name resolved."""
    import torch
    import torch.distributed as dist

    rank, world, nccl = order["rank"], order["world"], order["backend"] == "nccl"
    device = torch.device("cuda", rank) if nccl else torch.device("cpu")
    if nccl:
        torch.cuda.set_device(device)
    dist.init_process_group(order["backend"], init_method=f"file://{order['folder']}/meet", rank=rank, world_size=world)
    try:
        sums = {}
        for name in DTYPES:  # all of them before anything is judged: a rank that stops would leave the others waiting
            mine = torch.tensor(pattern(rank, world, order["elements"]), dtype=getattr(torch, name), device=device)
            dist.all_reduce(mine)
            sums[name] = mine.tolist()
    finally:
        dist.destroy_process_group()
    for name, values in sums.items():
        judge_sums(name, values, total(world, order["elements"]))
    version = ".".join(str(part) for part in torch.cuda.nccl.version()) if nccl else torch.__version__
    return {"version": version, "dtypes": list(DTYPES), "elements": order["elements"]}


def judge_sums(name: str, values: Sequence[float], wanted: Sequence[int]) -> None:
    """Raise :class:`CheckError` for the first element that is not what it must be."""
    wrong = [item for item in enumerate(zip(values, wanted, strict=True)) if item[1][0] != item[1][1]]
    if wrong:
        index, (value, want) = wrong[0]
        raise CheckError(f"{name}: {len(wrong)} sums are wrong; element {index} is {value} instead of {want}")


def pattern(rank: int, world: int, elements: int) -> Sequence[int]:
    """What ``rank`` brings: small whole numbers, another row for each rank, of which any partial sum is exact."""
    most = EXACT_LIMIT // world
    if most < 1:
        raise CheckError(f"{world} ranks are more than can be added exactly")
    return [(index * 7 + rank * 3 + 1) % most + 1 if most > 1 else 1 for index in range(elements)]


def total(world: int, elements: int) -> Sequence[int]:
    """The sum over all ranks, by Python's integers."""
    rows = [pattern(rank, world, elements) for rank in range(world)]
    return [sum(column) for column in zip(*rows, strict=True)]
