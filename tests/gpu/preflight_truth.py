"""The tests of `orbit preflight` on real GPUs: any number of them, torch and nothing else installed.

    python -m tests.gpu.preflight_truth [--burn-in SECONDS] [--json FILE]

Needs a GPU, its driver, and the repository on ``PYTHONPATH``. Says what the driver says, runs memory, products, peers,
IPC and the all-reduce as the preflight does, then the same with something broken on purpose: a word of memory, a
product, a sum, a second process that is given a copy; each must be found. Where msgspec is installed the checks
themselves are judged as well. Exit status: 0 all is as it must be, 1 something is not, 3 there is no GPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from orbit.launch.preflight import driver
from orbit.launch.preflight.gpu_tests import Answer, Group, run_group, run_node
from orbit.launch.preflight.stack import devices, ring, sharing

LIMIT_S = 300.0


def broken_memory() -> None:
    """One bit of one word, on the device."""
    right = devices.pattern

    def wrong(words: int, number: int, device: Any, *, inverse: bool) -> Any:
        value = right(words, number, device, inverse=inverse)
        if inverse:
            value[words // 2] ^= 1 << 40
            devices.pattern = right
        return value

    devices.pattern = wrong
    devices.try_memory(torch.device("cuda", 0), 1.0, 1 << 30)


def broken_product() -> None:
    """One number of the reference."""
    wanted = devices.references("cuda")
    wanted["bfloat16"][2][7, 11] += 1
    devices.try_matmul(torch.device("cuda", 0), wanted)


def broken_sum() -> None:
    """A rank of NCCL, alone in its world, that expects the sum of two."""
    right = ring.total
    ring.total = lambda world, elements, device: right(world + 1, elements, device)
    try:
        with tempfile.TemporaryDirectory() as folder:
            meet = f"file://{folder}/meet"
            ring.reduce({"rank": 0, "world": 1, "backend": "nccl", "meet": meet, "device": 0, "limit_s": 60})
    finally:
        ring.total = right


def broken_sharing() -> None:
    """The second process leaves another mark than this one expects, as with a copy."""
    device = torch.device("cuda", 0)
    sharing.MARK = -8
    try:
        sharing.try_sharing(device, torch.arange(sharing.WORDS, dtype=torch.int64, device=device))
    finally:
        sharing.MARK = -7


BROKEN: dict[str, tuple[Callable[[], None], str]] = {
    "a wrong word of memory": (broken_memory, "words of memory are not what was written"),
    "a wrong product": (broken_product, "products are wrong; [7, 11]"),
    "a wrong sum": (broken_sum, "sums over 1 ranks are wrong"),
    "memory that is a copy": (broken_sharing, "it was given a copy"),
}


def find_broken() -> list[str]:
    """Which of the broken ones were not found."""
    missed = []
    for name, (work, words) in BROKEN.items():
        began = time.monotonic()
        try:
            work()
            found = "nothing"
        except RuntimeError as error:
            found = str(error)
        good = words in found
        print(f"{'found' if good else 'MISSED'} {name}: {found[:100]} ({time.monotonic() - began:.1f} s)", flush=True)
        if not good:
            missed.append(name)
    return missed


def judged(answers: tuple[Answer, ...]) -> list[str]:
    """The checks that fail, where msgspec is there to make checks of the answers."""
    if importlib.util.find_spec("msgspec") is None:
        print("msgspec is not installed: the answers are not judged as checks", flush=True)
        return []
    from orbit.launch.preflight.model import Demand
    from orbit.launch.preflight.run import check_node
    from orbit.launch.preflight.say import line
    from orbit.launch.preflight.stack_checks import judge_answers

    report = check_node(Demand(gpus=torch.cuda.device_count()), rank=0, host="here", devices=False)
    gpu = [check for check in report.checks if check.name in ("driver", "cuda-library", "fabric", "gpus", "gpu-health")]
    checks = [*gpu, *judge_answers(answers)]
    for check in checks:
        print(f"{check.state:8} {check.name:14} {line(check)}", flush=True)
    print(f"the node without its devices: {report.seconds} s", flush=True)
    return [check.name for check in checks if check.state == "failed"]


def main() -> int:
    """Everything, and the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--burn-in", type=float, default=0.0, metavar="SECONDS", help="load all GPUs for so long")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was said")
    args = parser.parse_args()
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")  # as the image does
    told: dict[str, Any] = {"cuda": driver.ask_cuda(), "nvml": driver.ask_nvml()}
    told["mapped"] = driver.mapped(driver.CUDA_LIBRARY)
    print(json.dumps(told, indent=1), flush=True)
    count = len(told["cuda"]["devices"])
    if not count:
        print("no GPU: nothing was tested", flush=True)
        return 3
    began = time.monotonic()
    answers = run_node("cuda", count, limit_s=LIMIT_S, group_s=LIMIT_S, burn_in_s=args.burn_in)
    spent = time.monotonic() - began
    # one process joins by address and port, as the nodes of a job do
    alone = run_group(Group(local=count, meet=f"tcp://127.0.0.1:{ring_port()}"), limit_s=LIMIT_S)
    for answer in (*answers, alone):
        print(f"{answer.task}: {answer.problem or 'good'} ({answer.seconds} s) {json.dumps(answer.facts)}", flush=True)
    print(f"all devices of the node: {spent:.1f} s{' with the load' if args.burn_in else ''}", flush=True)
    bad = [answer.task for answer in (*answers, alone) if answer.problem]
    bad += judged(answers) + find_broken()
    if args.json:
        args.json.write_text(json.dumps({"driver": told, "answers": [asdict(each) for each in answers], "bad": bad}))
    print(f"not as it must be: {', '.join(bad) or 'nothing'}", flush=True)
    return 1 if bad else 0


def ring_port() -> int:
    """A port that is free now."""
    with socket.socket() as asking:
        asking.bind(("127.0.0.1", 0))
        port: int = asking.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.exit(main())
