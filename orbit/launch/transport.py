"""How adapters and weights go from a trainer to its engines: what follows from what the preflight measured. Pure.

The trainer asks :func:`choose` once, with the :class:`~orbit.launch.preflight.model.Measured` of every node, and logs
:meth:`Transports.lines`. Facts: CUDA IPC needs ``pidfd_getfd`` for memory of expandable segments, which the profiles of
some batch systems forbid; on devices of compute capability 10 handles of views, and at times of copies, cannot be
opened; ``file_system`` sharing of CPU copies reaches one host and needs room in /dev/shm; NCCL knows no two ranks on
one device, so it serves engines on devices of their own only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from orbit.core.amounts import format_bytes
from orbit.core.records import Record
from orbit.errors import InputError
from orbit.launch.preflight.model import Measured

OVERRIDE = "ORBIT_PEFT_ADAPTER_TRANSPORT"
"""A person's choice of the adapter's transport; it wins, and it is told that it did."""
ADAPTERS = ("cuda_ipc", "cpu_gather", "nccl", "ray")
COLOCATED = ("cuda_ipc", "cpu_gather", "ray")
APART = ("nccl", "ray")
ODD_HANDLES = "10."
"""Compute capabilities (B200, B300) on which cudaIpcOpenMemHandle fails for views, and at times for copies."""
LEAST_LOCKED = 1 << 30
"""Locked memory without which RDMA registers nothing of use, as the preflight has it."""
SHM_SHARE = 0.5
"""Of /dev/shm that a push may take: NCCL, Ray's store and data loaders live there as well."""

type Adapter = Literal["cuda_ipc", "cpu_gather", "nccl", "ray"]
type Weights = Literal["cuda-ipc", "nccl", "shared-memory", "ray"]


class Layout(Record, frozen=True, kw_only=True):
    """Where trainer and engines are."""

    colocated: bool = True
    """Engines run on the trainer's own devices."""
    engine_nodes: int = 1
    """Nodes that one engine spans."""
    method: Literal["lora", "oft"] = "lora"
    double_buffer: bool = False
    """A new adapter is staged beside the one that serves, then made active."""
    adapter_bytes: int = 0
    """Of one push, all ranks of a node together; 0: not known."""
    weight_bytes: int = 0
    """The same of the largest bucket of weights."""
    capabilities: tuple[str, ...] = ()
    """Compute capability of each kind of device: ``9.0``."""


class Pick(Record, frozen=True, kw_only=True):
    """One choice, and why."""

    value: str
    reason: str
    overridden: bool = False
    """A person's choice, not what was measured."""
    measured: str = ""
    """With ``overridden``: what would have been chosen."""


class Setting(Record, frozen=True, kw_only=True):
    """A variable that trainer and engines must both have."""

    name: str
    value: str
    reason: str


class Transports(Record, frozen=True, kw_only=True):
    """Everything that follows for a job."""

    adapter: Pick
    weights: Pick
    settings: tuple[Setting, ...]
    warnings: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """For the log of the job."""
        for what, pick in (("adapter transport", self.adapter), ("weight transport", self.weights)):
            yield f"{what}: {pick.value}: {pick.reason}"
        yield from (f"{each.name}={each.value}: {each.reason}" for each in self.settings)
        yield from (f"warning: {text}" for text in self.warnings)


def choose(nodes: Sequence[Measured], layout: Layout, env: Mapping[str, str]) -> Transports:
    """What all nodes can do: one that cannot decides for the job. What was not measured on a node cannot be relied on.

    Raises :class:`InputError` for a layout that contradicts itself, and for an override that is no transport.
    """
    if not nodes:
        raise InputError("no node was measured", fix="run the preflight first: orbit preflight")
    if layout.double_buffer and layout.colocated:
        raise InputError(
            "double_buffer = true with colocated = true",
            fix="staging beside a serving adapter goes by NCCL, between devices: set one of them to false",
        )
    ipc, ipc_reason = _ipc(nodes, env)
    adapter = _adapter(nodes, layout, ipc=ipc, reason=ipc_reason)
    adapter, warnings = _overridden(adapter, layout, env, ipc=ipc, reason=ipc_reason)
    return Transports(
        adapter=adapter,
        weights=_weights(nodes, layout, ipc=ipc, reason=ipc_reason),
        settings=tuple(_settings(nodes, env, uses_ipc=ipc and layout.colocated)),
        warnings=warnings,
    )


def interface_setting(node: Measured, env: Mapping[str, str]) -> Setting | None:
    """Which interface NCCL and Gloo use on this node, which may be another one on the next: that of the route to the
    first node. None where a person named one, or where there is only one node (nothing was measured).
    """
    if env.get("NCCL_SOCKET_IFNAME") or not node.interface:
        return None
    reason = f"the way to the first node goes out of {node.interface} ({node.address or 'no address'})"
    return Setting(name="NCCL_SOCKET_IFNAME", value=f"={node.interface}", reason=reason)


def expandable(env: Mapping[str, str]) -> bool:
    """Whether torch's allocator is told to use expandable segments."""
    told = ",".join(env.get(name, "") for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"))
    return "expandable_segments:true" in told.lower().replace(" ", "")


def _ipc(nodes: Sequence[Measured], env: Mapping[str, str]) -> tuple[bool, str]:
    """Whether CUDA IPC can be relied on everywhere, and the reason."""
    count = _of(len(nodes))
    if bad := sum(node.cuda_ipc is False for node in nodes):
        return False, f"GPU memory of one process could not be opened by another ({bad} of {count})"
    if unknown := sum(node.cuda_ipc is None for node in nodes):
        return False, f"whether GPU memory can be opened by another process was not measured ({unknown} of {count})"
    if expandable(env) and (denied := sum(node.pidfd_getfd is not True for node in nodes)):
        why = f"pidfd_getfd is denied or was not measured ({denied} of {count})"
        return False, f"{why}, and memory of expandable segments is opened through it"
    return True, f"GPU memory of one process was opened and read by another on {count}"


def _adapter(nodes: Sequence[Measured], layout: Layout, *, ipc: bool, reason: str) -> Pick:
    if not layout.colocated:
        if layout.method == "oft" and not layout.double_buffer:
            why = "an engine with one slot refuses OFT over NCCL; with double_buffer it would go by nccl"
            return Pick(value="ray", reason=why)
        return Pick(value="nccl", reason="engines have devices of their own: one broadcast reaches them all")
    odd = [each for each in layout.capabilities if each.startswith(ODD_HANDLES)]
    if ipc and odd:
        ipc, reason = False, f"on compute capability {odd[0]} handles of views cannot be opened, at times of copies too"
    if ipc:
        return Pick(value="cuda_ipc", reason=reason)
    if layout.engine_nodes > 1:
        why = f"{reason}; CPU copies are shared within one host, and an engine spans {layout.engine_nodes} nodes"
        return Pick(value="ray", reason=why)
    if problem := _no_room(nodes, layout.adapter_bytes):
        return Pick(value="ray", reason=f"{reason}; {problem}")
    return Pick(value="cpu_gather", reason=reason)


def _overridden(
    pick: Pick, layout: Layout, env: Mapping[str, str], *, ipc: bool, reason: str
) -> tuple[Pick, tuple[str, ...]]:
    told = env.get(OVERRIDE, "")
    if not told:
        return pick, ()
    if told not in ADAPTERS:
        raise InputError(f"{OVERRIDE}={told}: no such transport", fix=f"unset it, or one of: {', '.join(ADAPTERS)}")
    possible = COLOCATED if layout.colocated else APART
    if told not in possible:
        place = "on the trainer's devices" if layout.colocated else "on devices of their own"
        raise InputError(f"{OVERRIDE}={told} with engines {place}", fix=f"unset it, or one of: {', '.join(possible)}")
    if layout.double_buffer and told != "nccl":
        raise InputError(f"{OVERRIDE}={told} with double_buffer = true", fix="double_buffer needs nccl: unset one")
    if told == "cpu_gather" and layout.engine_nodes > 1:
        raise InputError(
            f"{OVERRIDE}=cpu_gather with engines that span {layout.engine_nodes} nodes",
            fix="CPU copies are shared within one host: unset it",
        )
    warnings = []
    if told == "cuda_ipc" and not ipc:
        warnings.append(f"{OVERRIDE}=cuda_ipc, but {reason}: a push will fail")
    elif told != pick.value:
        warnings.append(f"{OVERRIDE}={told}; what was measured speaks for {pick.value}: {pick.reason}")
    why = f"{OVERRIDE} says so"
    return Pick(value=told, reason=why, overridden=True, measured=pick.value), tuple(warnings)


def _weights(nodes: Sequence[Measured], layout: Layout, *, ipc: bool, reason: str) -> Pick:
    if not layout.colocated:
        return Pick(value="nccl", reason="engines have devices of their own: one broadcast reaches them all")
    if ipc:
        return Pick(value="cuda-ipc", reason=f"{reason}; buckets are copied into buffers of their own first")
    if layout.engine_nodes > 1:
        why = f"{reason}; /dev/shm is one host's, and an engine spans {layout.engine_nodes} nodes"
        return Pick(value="ray", reason=why)
    if problem := _no_room(nodes, layout.weight_bytes):
        return Pick(value="ray", reason=f"{reason}; {problem}")
    return Pick(value="shared-memory", reason=reason)


def _no_room(nodes: Sequence[Measured], need: int) -> str:
    """Why /dev/shm cannot hold ``need`` bytes on every node; empty when it can."""
    sizes = [node.shm_bytes for node in nodes]
    if any(size is None for size in sizes):
        return "the size of /dev/shm was not measured on every node"
    least = min(size for size in sizes if size is not None)
    if need > least * SHM_SHARE:
        return f"a push of {format_bytes(need)} is more than half of /dev/shm ({format_bytes(least)})"
    return "" if least else "the size of /dev/shm is 0"


def _settings(nodes: Sequence[Measured], env: Mapping[str, str], *, uses_ipc: bool) -> Iterator[Setting]:
    """Variables of trainer and engines alike; those a person set are kept and told."""
    for name in ("NCCL_CUMEM_ENABLE", "NCCL_NVLS_ENABLE"):
        told = env.get(name)
        reason = "set by the caller" if told else "engines set it where nothing is said"
        yield Setting(name=name, value=told or "0", reason=f"{reason}; trainer and engines in one group must agree")
    if env.get("NCCL_IB_DISABLE"):
        yield Setting(name="NCCL_IB_DISABLE", value=env["NCCL_IB_DISABLE"], reason="set by the caller")
    elif len(nodes) > 1 and (reason := _no_rdma(nodes)):
        yield Setting(name="NCCL_IB_DISABLE", value="1", reason=reason)
    if uses_ipc and not expandable(env) and any(node.pidfd_getfd is not True for node in nodes):
        reason = "pidfd_getfd is denied or was not measured, and memory of expandable segments is opened through it"
        told = env.get("PYTORCH_CUDA_ALLOC_CONF", "")
        if "expandable_segments" not in told:
            value = ",".join(filter(None, (told, "expandable_segments:False")))
            yield Setting(name="PYTORCH_CUDA_ALLOC_CONF", value=value, reason=reason)


def _no_rdma(nodes: Sequence[Measured]) -> str:
    """Why RDMA must be left alone on all nodes; empty where every node can use it."""
    count = _of(len(nodes))
    if without := sum(not node.rdma for node in nodes):
        return f"no usable RDMA device on {without} of {count}: all nodes go by TCP"
    locked = [node.memlock_bytes for node in nodes]
    if unknown := sum(limit is None for limit in locked):
        return f"how much memory may be locked was not measured on {unknown} of {count}"
    small = [limit for limit in locked if limit is not None and 0 <= limit < LEAST_LOCKED]
    if small:
        return f"only {format_bytes(min(small))} of memory may be locked on {len(small)} of {count}"
    return ""


def _of(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"
