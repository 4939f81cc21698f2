"""The tests of one node's devices, in a process of its own.

An order (JSON) comes on stdin, one line of JSON for each test goes to stdout as soon as it is done: when the process
dies, what it was at is known.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from orbit.launch.preflight.stack import devices, load, peers, sharing


def main() -> None:
    """Order: ``kind`` (cuda, cpu), ``tasks``, ``share`` and ``most`` of memory, ``burn_in_s``."""
    order = json.load(sys.stdin)
    cuda = order["kind"] == "cuda"
    if cuda and not torch.cuda.is_available():
        say("torch", lambda: _raise("torch sees no GPU (torch.cuda.is_available() is false)"))
        return
    where = (
        [torch.device("cuda", index) for index in range(torch.cuda.device_count())] if cuda else [torch.device("cpu")]
    )
    release = torch.version.cuda or "none"
    say("torch", lambda: {"version": torch.__version__, "cuda": release, "devices": len(where)})
    work: dict[str, Callable[[], dict[str, Any]]] = {
        "memory": lambda: each(where, lambda device: devices.try_memory(device, order["share"], order["most"])),
        "matmul": lambda: matmul(where),
        "peers": lambda: peers.try_peers(where),
        "sharing": lambda: share(where),
        "burn-in": lambda: load.burn_in(where, order["burn_in_s"]),
    }
    for task in order["tasks"]:
        say(task, work[task])


def say(task: str, work: Callable[[], dict[str, Any]]) -> None:
    """Do it and print what became of it; whatever torch or a driver raises is the result."""
    began = time.monotonic()
    answer: dict[str, Any] = {"task": task, "problem": "", "facts": {}}
    try:
        answer["facts"] = work()
    except Exception as error:  # noqa: BLE001 - it is what the test found
        answer["problem"] = f"{type(error).__name__}: {' '.join(str(error).split())[:600]}"
    answer["seconds"] = round(time.monotonic() - began, 3)
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def each(where: list[Any], work: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """The same on all devices at once. Raises the first error, with the device it was on."""
    found: dict[int, dict[str, Any]] = {}
    errors: dict[int, Exception] = {}

    def one(number: int, device: Any) -> None:
        try:
            if device.type == "cuda":
                torch.cuda.set_device(device)
            found[number] = work(device)
        except Exception as error:  # noqa: BLE001 - raised below, in the thread that asked
            errors[number] = error

    threads = [threading.Thread(target=one, args=item) for item in enumerate(where)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        number = min(errors)
        raise RuntimeError(f"{where[number]}: {errors[number]}") from errors[number]
    return {str(where[number]): found[number] for number in sorted(found)}


def matmul(where: list[Any]) -> dict[str, Any]:
    """Products of all types on all devices against float64 of the CPU. Reductions in a narrow type are switched off."""
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_tf32 = False
    wanted = devices.references(where[0].type)
    return each(where, lambda device: devices.try_matmul(device, wanted))


def share(where: list[Any]) -> dict[str, Any]:
    """Memory of the first two devices, opened by another process."""
    found = {}
    for device in where[:2]:
        numbers = torch.arange(sharing.WORDS, dtype=torch.int64, device=device)
        found[str(device)] = sharing.try_sharing(device, numbers)
    return found


def _raise(text: str) -> dict[str, Any]:
    raise RuntimeError(text)
