"""What a node shows of itself, read once: by the readers of the preflight, with made-up roots in tests.

Whatever can block (a dead file server, a driver) has a limit of its own.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orbit.launch.preflight.aside import Answer, LateError, aside
from orbit.launch.preflight.below import names, text
from orbit.launch.preflight.cgroup import Cgroup, read_cgroup
from orbit.launch.preflight.gpu_facts import Driver, ask_driver
from orbit.launch.preflight.gpu_tests import run_child
from orbit.launch.preflight.handles import Taken, try_take
from orbit.launch.preflight.limits import Bounds, read_bounds
from orbit.launch.preflight.memory import Memory, read_memory
from orbit.launch.preflight.mounts import Mounted, read_mounts
from orbit.launch.preflight.processors import Processors, read_processors
from orbit.launch.preflight.rdma import Adapter, read_rdma
from orbit.launch.preflight.rules import Rules, load_rules
from orbit.launch.preflight.storage import GRACE_S, Tried, try_folders

ROOT = Path("/")
SYSTEM_KINDS = frozenset({
    "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs",
    "fusectl", "fuse.lxcfs", "hugetlbfs", "mqueue", "nsfs", "overlay", "proc", "pstore", "ramfs", "rootfs",
    "rpc_pipefs",
    "securityfs", "selinuxfs", "squashfs", "sysfs", "tmpfs", "tracefs",
})  # fmt: skip
"""File systems that are no place for data: the kernel's own, memory, and the layers of an image."""
SYSTEM_PLACES = re.compile(
    r"^/$|^/(?:bin|boot|dev|etc|lib(?:32|64|x32)?|proc|run|sbin|snap|sys|usr|\.singularity\.d)(?:/|$)"
    r"|^/opt/orbit(?:/|$)|^/(?:var/)?tmp(?:/|$)|^/var/(?:run|lib/(?:docker|containerd|kubelet|containers))(?:/|$)"
)
"""Mount points of the system, or that a container runtime puts there."""
PROGRAMS = ("docker", "podman", "enroot", "apptainer", "singularity")
NVIDIA, DISPLAY = "0x10de", "0x03"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """Everything :func:`orbit.launch.site.probe.probe` goes by."""

    env: Mapping[str, str]
    uid: int
    processors: Processors
    cgroup: Cgroup
    memory: Memory
    bounds: Bounds
    mounts: tuple[Mounted, ...] = ()
    """Those that are places for data, and the one of /tmp."""
    tried: Mapping[str, Tried] = field(default_factory=dict)
    """By mount point: what became of the folder below it that can be written to, or why none can."""
    temporary: Tried | None = None
    """What became of the folder for temporary files that every container has."""
    adapters: tuple[Adapter, ...] = ()
    taken: Taken = field(default_factory=lambda: Taken(problem="not tried"))
    driver: Driver = field(default_factory=lambda: Driver(missing="not asked"))
    cards: int = 0
    """NVIDIA's displays and accelerators on the PCI bus, whether they can be used or not."""
    cuda_ipc: bool | None = None
    ipc_problem: str = "no GPU is usable here"
    """Why not, or why it was not tried."""
    physical: tuple[str, ...] = ()
    """Network interfaces with a device of their own."""
    container: str = ""
    """``docker``, ``podman``, ``apptainer``, ``enroot``; empty: no sign of a container."""
    programs: tuple[str, ...] = ()
    """Of :data:`PROGRAMS`, those that can be started from here."""
    pyxis: str = ""
    """The file of Slurm's configuration that names the plugin."""
    resolv: str = ""
    namespace: str = ""
    """Of the pod."""
    condor: str = ""
    """The machine ad of an HTCondor job."""
    named: bool = True
    """Whether the user has an entry in /etc/passwd."""
    rules: Rules | None = None


def read_facts(
    env: Mapping[str, str], *, root: Path = ROOT, devices: bool = True, folder: str = "", driver: Driver | None = None
) -> NodeFacts:
    """Read the node below ``root``. ``devices``: whether GPUs are asked and CUDA IPC is tried (seconds);
    ``folder``: another one to try where a mount point itself cannot be written; ``driver``: what it said, if known."""
    rules = load_rules()
    mounts, cgroup = read_mounts(root), read_cgroup(root)
    places = data_mounts(mounts)
    asked = aside(functools.partial(ask_driver, root, rules.times)) if driver is None and devices else None
    taken = aside(try_take)
    tried = _try_mounts(places, mounts, _candidates(env, folder), rules.times.file_s)
    temporary = try_folders(["/tmp"], mounts, rules.times.file_s)["/tmp"]  # noqa: S108 - what a job would use
    said = driver or (_driver(asked, rules) if asked else Driver(missing="not asked (--no-devices)"))
    ipc, problem = _try_ipc(said, rules) if devices else (None, "not tried (--no-devices)")
    return NodeFacts(
        env=dict(env),
        uid=os.getuid(),
        processors=read_processors(root, cgroup),
        cgroup=cgroup,
        memory=read_memory(root, cgroup, mounts),
        bounds=read_bounds(root, cgroup),
        mounts=places,
        tried=tried,
        temporary=temporary,
        adapters=read_rdma(root),
        taken=_taken(taken, rules),
        driver=said,
        cards=count_cards(root),
        cuda_ipc=ipc,
        ipc_problem=problem,
        physical=tuple(each for each in names(root, "sys/class/net") if names(root, f"sys/class/net/{each}/device")),
        container=find_container(root, env, mounts),
        programs=tuple(name for name in PROGRAMS if shutil.which(name, path=env.get("PATH", ""))),
        pyxis=find_pyxis(root),
        resolv=text(root, "etc/resolv.conf"),
        namespace=text(root, "var/run/secrets/kubernetes.io/serviceaccount/namespace").strip(),
        condor=text(root, env.get("_CONDOR_MACHINE_AD", "").lstrip("/")) if env.get("_CONDOR_MACHINE_AD") else "",
        named=any(line.split(":")[2:3] == [str(os.getuid())] for line in text(root, "etc/passwd").splitlines()),
        rules=rules,
    )


def data_mounts(mounts: Sequence[Mounted]) -> tuple[Mounted, ...]:
    """Mounts that hold data, one for each mount point: the one on top."""
    found = {mount.point: mount for mount in mounts}
    return tuple(
        mount for mount in found.values() if mount.kind not in SYSTEM_KINDS and not SYSTEM_PLACES.match(mount.point)
    )


def find_container(root: Path, env: Mapping[str, str], mounts: Sequence[Mounted]) -> str:
    """What started the container this runs in; empty without a sign of one."""
    if env.get("APPTAINER_CONTAINER") or env.get("SINGULARITY_CONTAINER") or names(root, ".singularity.d"):
        return "apptainer"
    if "run" in names(root, "") and ".containerenv" in names(root, "run"):
        return "podman"
    if ".dockerenv" in names(root, ""):
        return "docker"
    top = [mount for mount in mounts if mount.point == "/"]
    if any("enroot" in f"{mount.source} {' '.join(mount.options)}" for mount in top):
        return "enroot"
    return ""


def find_pyxis(root: Path) -> str:
    """The file below /etc/slurm that loads the plugin; empty when none does, or none can be read."""
    for folder in ("etc/slurm", "etc/slurm/plugstack.conf.d", "etc/slurm-llnl"):
        for name in names(root, folder):
            if name.endswith(".conf") and ("plugstack" in f"{folder}/{name}"):
                lines = text(root, f"{folder}/{name}").splitlines()
                if any("pyxis" in line for line in lines if not line.lstrip().startswith("#")):
                    return f"/{folder}/{name}"
    return ""


def count_cards(root: Path) -> int:
    """NVIDIA's devices of class 03 (display controllers, accelerators without a screen among them) on the PCI bus."""
    base = "sys/bus/pci/devices"
    return sum(
        text(root, f"{base}/{each}/vendor").strip() == NVIDIA and text(root, f"{base}/{each}/class").startswith(DISPLAY)
        for each in names(root, base)
    )


def _candidates(env: Mapping[str, str], folder: str) -> list[str]:
    """Folders of this user, where a mount point itself may not be written to."""
    told = [folder, *(env.get(name, "") for name in ("SCRATCH", "WORK", "PROJECT", "HOME", "PWD"))]
    return [os.path.normpath(each) for each in told if each.startswith("/")]


def _try_mounts(
    places: Sequence[Mounted], mounts: Sequence[Mounted], own: Sequence[str], limit_s: float
) -> dict[str, Tried]:
    """Each mount at its top; where that cannot be written, at the first folder of the user's below it that can."""
    found = try_folders([mount.point for mount in places], mounts, limit_s)
    for mount in places:
        if found[mount.point].problem and found[mount.point].error in ("EACCES", "EPERM"):
            below = [each for each in own if each.startswith(f"{mount.point.rstrip('/')}/")]
            again = try_folders(below, mounts, limit_s) if below else {}
            found[mount.point] = next((each for each in again.values() if not each.problem), found[mount.point])
    return {mount.point: found[mount.point] for mount in places}


def _driver(asked: Answer[Driver], rules: Rules) -> Driver:
    try:
        return asked.value(rules.times.fabric_s + rules.times.driver_s + GRACE_S)
    except (LateError, OSError) as error:
        return Driver(problem=str(error))


def _taken(taken: Answer[Taken], rules: Rules) -> Taken:
    try:
        return taken.value(rules.times.file_s)
    except (LateError, OSError) as error:
        return Taken(problem=str(error))


def _try_ipc(driver: Driver, rules: Rules) -> tuple[bool | None, str]:
    """Really, through torch, between two processes; None and the reason where that cannot be."""
    if not driver.devices:
        return None, "no GPU is usable here"
    answers = run_child("cuda", ("sharing",), limit_s=rules.times.stack_s)
    answer = next((each for each in answers if each.task == "sharing"), None)
    if answer is None:
        return None, answers[0].problem if answers else "the test gave no answer"
    return not answer.problem, answer.problem
