"""What the tests of the devices found, as checks, and what follows for transports. Rates are told, never judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from orbit.core.amounts import format_bytes
from orbit.launch.preflight.gpu_tests import BURN_IN, RANKS, TORCH, Answer
from orbit.launch.preflight.model import Check
from orbit.launch.preflight.say import failed, passed, warned

NAMES = {
    TORCH: "torch",
    "memory": "gpu-memory",
    "matmul": "gpu-matmul",
    "peers": "peer-access",
    "sharing": "cuda-ipc",
    RANKS: "all-reduce",
    BURN_IN: "burn-in",
}
ACROSS = "all-reduce-across"
ANOTHER = "take another node, and tell its administrator (dcgmi diag -r 3 looks deeper)"
FIXES = {
    TORCH: "run this in the image, or with an environment's Python; with --gpus 0 it is not needed",
    "memory": ANOTHER,
    "matmul": ANOTHER,
    BURN_IN: ANOTHER,
    RANKS: "NCCL_DEBUG=INFO says more; often /dev/shm, a wrong NCCL_SOCKET_IFNAME or peer access in a virtual machine",
}
NO_IPC = "nothing: adapters and weights go by main memory; CAP_SYS_PTRACE and --ipc=host allow it where that is wanted"


def judge_answers(answers: Sequence[Answer]) -> Iterator[Check]:
    """``torch``, ``gpu-memory``, ``gpu-matmul``, ``peer-access``, ``cuda-ipc``, ``all-reduce``, ``burn-in``."""
    for answer in answers:
        name, facts = NAMES[answer.task], _flat(answer.facts)
        if not answer.problem:
            check = _peers(answer, facts) if answer.task == "peers" else passed(name, _told(answer), **facts)
        elif answer.task in ("sharing", "peers"):
            text = "memory of one process cannot be opened by another" if answer.task == "sharing" else "copies fail"
            fix = NO_IPC if answer.task == "sharing" else ANOTHER
            judge = warned if answer.task == "sharing" else failed
            check = judge(name, f"{text}: {answer.problem}", fix)
        else:
            check = failed(name, answer.problem, FIXES[answer.task])
        yield _timed(check, answer.seconds)


def judge_group(answer: Answer, nodes: int) -> Check:
    """``all-reduce-across``: all GPUs of all nodes."""
    if answer.problem:
        text = f"all-reduce over {nodes} nodes: {answer.problem}"
        fix = "NCCL_DEBUG=INFO says more; look at interface, rdma and firewall between the nodes"
        return _timed(failed(ACROSS, text, fix), answer.seconds)
    return _timed(passed(ACROSS, f"{nodes} nodes: {_told(answer)}", **_flat(answer.facts)), answer.seconds)


def measured_of(answers: Sequence[Answer]) -> dict[str, bool]:
    """``cuda_ipc`` and ``peer_access`` of :class:`orbit.launch.preflight.model.Measured`, as far as they were tried on
    GPUs."""
    found: dict[str, bool] = {}
    for answer in answers:
        on_gpu = "cpu" not in answer.facts
        if answer.task == "sharing" and on_gpu:
            found["cuda_ipc"] = not answer.problem
        if answer.task == "peers":
            found["peer_access"] = bool(answer.facts.get("all")) and not answer.problem
    return found


def _peers(answer: Answer, facts: dict[str, str]) -> Check:
    access = answer.facts["access"]
    pairs = [(i, j) for i, row in enumerate(access) for j, may in enumerate(row) if not may]
    if not pairs:
        slowest = answer.facts["slowest"]
        told = f"all {len(access)} GPUs read each other's memory" if len(access) > 1 else "one GPU, no peers"
        return passed("peer-access", f"{told}{f', {slowest:g} GB/s at least' if slowest else ''}", **facts)
    one, other = pairs[0]
    text = f"GPU {one} cannot read the memory of GPU {other} ({len(pairs)} such pairs): NCCL goes through main memory"
    return warned(
        "peer-access", text, "nvidia-smi topo -p2p r shows why: IOMMU or ACS of the host, virtual machine, MIG", **facts
    )


def _told(answer: Answer) -> str:
    facts: dict[str, Any] = answer.facts
    if answer.task == TORCH:
        return f"torch {facts['version']}, CUDA {facts['cuda']}, {facts['devices']} devices"
    if answer.task == RANKS:
        network = f", network {facts['network']}" if "network" in facts else ""
        rate = f"{facts['bus_gigabytes_per_s']:g} GB/s on the bus"
        return f"{facts['ranks']} ranks hold the exact sum ({facts['version']}{network}), {rate}"
    if answer.task == BURN_IN:
        more = ", ".join(
            f"{key} {value}" for key, value in facts.items() if isinstance(value, int) and key != "seconds"
        )
        rates = [value["teraflops"] for value in facts.values() if isinstance(value, dict)]
        told = f"{facts['seconds']:g} s of products without a difference, {min(rates):g} to {max(rates):g} TFLOPS"
        return f"{told}; {more}" if more else told
    if answer.task == "memory":
        return (
            f"{format_bytes(sum(each['bytes'] for each in facts.values()))} written and read twice without a difference"
        )
    if answer.task == "matmul":
        types = " ".join({each["types"]: None for each in facts.values()})
        return f"products of {types} are those of float64 on {len(facts)} devices"
    return f"memory of {', '.join(facts)} was opened by another process"


def _flat(facts: dict[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in facts.items()}


def _timed(check: Check, seconds: float) -> Check:
    return msgspec.structs.replace(check, seconds=seconds)
