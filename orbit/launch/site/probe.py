"""Fill in a site file from what a node shows: every value with how it was found, or that it could not be. Pure.

Nothing is guessed in silence: what a node cannot show has a value that is safe and a note that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from orbit.core.records import convert
from orbit.errors import InputError
from orbit.launch.preflight.say import GIB, size
from orbit.launch.site import probe_image, probe_storage
from orbit.launch.site.check import problems
from orbit.launch.site.facts import NodeFacts
from orbit.launch.site.model import SCHEMA, Site

SIGNS = {
    "slurm": ("SLURM_JOB_ID", "SLURM_JOBID"),
    "kubernetes": ("KUBERNETES_SERVICE_HOST",),
    "htcondor": ("_CONDOR_SCRATCH_DIR", "_CONDOR_SLOT", "_CONDOR_JOB_AD"),
}
"""Scheduler -> variables that it alone sets in a job."""
MARK = "NOT FOUND:"
"""Begins the note of every value that a person must settle."""
UNLIMITED_FILES = 1048576


@dataclass(slots=True)
class Draft:
    """A site that is being filled in."""

    values: dict[str, Any] = field(default_factory=dict)
    """Nested, as in the file."""
    notes: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    """What was seen and is not in the file, each with the reason."""

    def put(self, key: str, value: Any, note: str) -> None:
        """Set ``nodes.gpus`` to a value, and say how it is known."""
        here = self.values
        *folders, last = key.split(".")
        for name in folders:
            here = here.setdefault(name, {})
        here[last] = value
        self.notes[key] = note


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """The result."""

    site: Site
    notes: dict[str, str]
    left_out: tuple[str, ...]
    contradictions: tuple[str, ...]
    """What :func:`orbit.launch.site.check.problems` still says: nothing, for all nodes that are known."""

    @property
    def open(self) -> tuple[str, ...]:
        """Keys that could not be found, for a person to settle."""
        return tuple(key for key, note in self.notes.items() if note.startswith(MARK))


def probe(facts: NodeFacts, *, scheduler: str = "", name: str = "") -> Probed:
    """The site file that ``facts`` speak for. ``scheduler``: what a person says it is.

    Raises :class:`InputError` when variables of several schedulers are set and nobody says which one starts the jobs.
    """
    draft = Draft()
    found, how = find_scheduler(facts.env, scheduler)
    draft.put("schema", SCHEMA, "what this version of orbit reads")
    draft.put("name", name or f"probed-{found}", "given" if name else "choose one of your own")
    draft.put("scheduler", found, how)
    parts: tuple[Callable[[NodeFacts, str, Draft], None], ...] = (
        _nodes, probe_image.image, probe_storage.storage, _network, _limits, probe_image.user, probe_image.own_table,
    )  # fmt: skip
    for part in parts:
        part(facts, found, draft)
    site = convert(draft.values, Site, "what was found here")
    return Probed(
        site=site,
        notes=draft.notes,
        left_out=tuple(draft.left_out),
        contradictions=tuple(f"{what}: {fix}" for what, fix in problems(site)),
    )


def head(probed: Probed) -> str:
    """What stands at the top of the file."""
    lines = ["Filled in from inside a node by `orbit launch site probe`. A value that a node cannot show has a note",
             f"that begins with {MARK[:-1]}: settle it, then `orbit launch site check` this file."]  # fmt: skip
    lines += [f"Left out: {text}" for text in probed.left_out]
    lines += [f"Still contradicts itself: {text}" for text in probed.contradictions]
    return "\n".join(lines)


def find_scheduler(env: Mapping[str, str], told: str = "") -> tuple[str, str]:
    """The scheduler and how it is known. Raises :class:`InputError` where several claim this process."""
    seen = {name: next((v for v in signs if env.get(v)), "") for name, signs in SIGNS.items()}
    there = {name: variable for name, variable in seen.items() if variable}
    if told:
        against = [f"{variable} of {name} is set" for name, variable in there.items() if name != told]
        return told, f"given with --scheduler{'; ' + ', '.join(against) if against else ''}"
    if len(there) > 1:
        listed = ", ".join(f"{variable} ({name})" for name, variable in there.items())
        raise InputError(
            f"variables of several schedulers are set here: {listed}",
            fix=f"say which one starts the jobs: --scheduler {' or '.join(there)}",
        )
    for name, variable in there.items():
        return name, f"{variable} is set"
    listed = ", ".join(variable for signs in SIGNS.values() for variable in signs[:1])
    return "docker", f"{MARK} none of {listed} is set, so this is taken for one machine; in a job, probe there"


def _nodes(facts: NodeFacts, scheduler: str, draft: Draft) -> None:
    _gpus(facts, draft)
    processors = facts.processors
    limits = [f"{processors.allowed} this process may run on"]
    limits += [f"{processors.cpuset} in the cgroup's set"] if processors.cpuset else []
    limits += [f"a quota of {processors.quota:g}"] if processors.quota else []
    draft.put("nodes.cpus", processors.whole, f"the least of: {', '.join(limits)}")
    memory = facts.memory
    limited = memory.limit is not None and memory.usable == memory.limit
    how = f"limit of the cgroup; the machine has {size(memory.total)}" if limited else "MemTotal, no cgroup limits it"
    draft.put("nodes.memory_gib", max(1, memory.usable // GIB), f"{size(memory.usable)}: {how}")
    count = facts.env.get("SLURM_JOB_NUM_NODES", "")
    if scheduler == "slurm" and count.isascii() and count.isdigit() and int(count) > 0:
        note = f"{MARK} this job has {count} (SLURM_JOB_NUM_NODES); how many one may have: scontrol show partition"
        draft.put("nodes.most", int(count), note)
    else:
        draft.put("nodes.most", 1, f"{MARK} a node does not know how many one job may have")


def _gpus(facts: NodeFacts, draft: Draft) -> None:
    driver = facts.driver
    kinds = list(dict.fromkeys(device.name for device in driver.devices))
    if driver.devices:
        visible = facts.env.get("CUDA_VISIBLE_DEVICES", "")
        rest = f"; this job was given {visible}, the node has {facts.cards or 'perhaps more'}" if visible else ""
        draft.put(
            "nodes.gpus", len(driver.devices), f"driver {driver.release or 'of unknown release'} shows them{rest}"
        )
        other = f"{MARK} there are others: {', '.join(kinds[1:])}; one file for each kind" if len(kinds) > 1 else ""
        draft.put("nodes.gpu", kinds[0], other or "as the driver reports it")
        return
    reason = driver.problem or driver.missing or f"cuInit answers {driver.status}"
    if facts.cards:
        note = f"{MARK} {facts.cards} NVIDIA devices are on the PCI bus, and none can be used here ({reason})"
    elif driver.missing and not driver.files:
        note = f"no NVIDIA device on the PCI bus and no driver ({reason})"
    else:
        note = f"{MARK} {reason}"
    draft.put("nodes.gpus", 0, note)


def _network(facts: NodeFacts, scheduler: str, draft: Draft) -> None:
    if not facts.container and scheduler != "kubernetes":
        draft.put("network.host_network", scheduler == "slurm", _host_note(scheduler))
    elif facts.physical:
        note = f"{', '.join(facts.physical)} {'have' if len(facts.physical) > 1 else 'has'} a device behind it"
        draft.put("network.host_network", True, note)
    else:
        draft.put("network.host_network", False, "no interface here has a device behind it")
    usable = [adapter.name for adapter in facts.adapters if adapter.usable]
    if usable:
        draft.put("network.rdma", "wanted", f"{', '.join(usable)} can be used here; 'required' refuses nodes without")
    elif facts.adapters:
        listed = ", ".join(adapter.name for adapter in facts.adapters)
        note = f"{MARK} the host has {listed}, and none can be used here (device file, active port, address)"
        draft.put("network.rdma", "none", note)
    else:
        draft.put("network.rdma", "none", "no device in /sys/class/infiniband")
    if scheduler == "kubernetes":
        domain = next((word.split(".svc.", 1)[1] for word in _search(facts.resolv) if ".svc." in word), "")
        known = "search list of /etc/resolv.conf"
        draft.put("network.cluster_domain", domain or "cluster.local", known if domain else f"{MARK} no search list")
    _proxy(facts, draft)


def _host_note(scheduler: str) -> str:
    if scheduler == "slurm":
        return "jobs of Slurm use the node's own network"
    return f"{MARK} probed outside of a container"


def _search(resolv: str) -> list[str]:
    return [word for line in resolv.splitlines() if line.startswith("search") for word in line.split()[1:]]


def _proxy(facts: NodeFacts, draft: Draft) -> None:
    for variable in ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY"):
        told = facts.env.get(variable, "")
        if not told:
            continue
        scheme, _, rest = told.rpartition("://")
        host = rest.rpartition("@")[2].rstrip("/")
        if scheme not in ("", "http", "https") or not host.rpartition(":")[2].isdigit() or ":" not in host:
            draft.left_out.append(f"{variable}: no http://host:port; write network.proxy yourself")
            return
        note = variable
        if "@" in rest:
            note = f"{variable}; its user and password are left out: they are secrets of a recipe"
        draft.put("network.proxy", f"{scheme or 'http'}://{host}", note)
        past = facts.env.get("no_proxy") or facts.env.get("NO_PROXY") or ""
        own = ("localhost", "127.0.0.1", "::1", "0.0.0.0")  # noqa: S104 - left out: every job has them
        listed = [word.strip() for word in past.split(",") if word.strip() and word.strip() not in own]
        draft.put("network.no_proxy", listed, "no_proxy, without this machine's own names")
        return
    draft.put("network.proxy", "", "no variable names one")


def _limits(facts: NodeFacts, scheduler: str, draft: Draft) -> None:
    shm, bounds = facts.memory.shm, facts.bounds
    told = "there is none" if shm is None else f"{size(shm)} here"
    if scheduler in ("docker", "kubernetes"):
        draft.put("limits.shm_gib", 0, f"{told}; 0: a job gets what it asks for")
    elif shm is None or shm < GIB:
        draft.put("limits.shm_gib", 0, f"{MARK} {told}, too little for NCCL and Ray; 0: the job's own wish")
    else:
        draft.put("limits.shm_gib", min(shm, facts.memory.usable) // GIB, f"{told}, in /dev/shm")
    free = bounds.locked_bytes < 0
    why = "by the capability IPC_LOCK" if bounds.ipc_lock else "hard limit of this process"
    amount = "no limit" if free else f"{size(bounds.locked_bytes)} may be locked"
    draft.put("limits.memlock", "unlimited" if free else "limited", f"{amount}, {why}")
    hard = bounds.nofile[1]
    note = "hard limit of this process" if hard else "no limit, so what Linux allows by itself"
    draft.put("limits.nofile", hard or UNLIMITED_FILES, note)
    draft.put("limits.pids", bounds.pids or 0, "pids.max of the cgroup" if bounds.pids else "no cgroup limits them")
    _handles(facts, draft)


def _handles(facts: NodeFacts, draft: Draft) -> None:
    taken = facts.taken
    allowed = not taken.problem and taken.number == 0
    if taken.problem:
        note = f"{MARK} could not be tried ({taken.problem}); taken for forbidden"
    elif allowed:
        note = "tried: one process took a descriptor of another"
    else:
        note = f"tried: refused with error {taken.number}"
    draft.put("limits.pidfd_getfd", allowed, note)
    if not allowed:
        draft.put("limits.cuda_ipc", False, "follows from pidfd_getfd")
    elif facts.cuda_ipc is None:
        draft.put("limits.cuda_ipc", False, f"{MARK} could not be tried: {facts.ipc_problem}; taken for impossible")
    elif facts.cuda_ipc:
        draft.put("limits.cuda_ipc", True, "tried: one process read GPU memory of another")
    else:
        draft.put("limits.cuda_ipc", False, f"tried: {facts.ipc_problem}")
