"""Nodes for tests: what one shows, with something changed."""

from __future__ import annotations

import tomllib
from typing import Any

from orbit.core.records import convert
from orbit.launch.preflight.cgroup import Cgroup
from orbit.launch.preflight.gpu_facts import Device, Driver
from orbit.launch.preflight.handles import Taken
from orbit.launch.preflight.limits import Bounds
from orbit.launch.preflight.memory import Memory
from orbit.launch.preflight.mounts import Mounted
from orbit.launch.preflight.processors import Processors
from orbit.launch.preflight.rdma import Adapter
from orbit.launch.preflight.storage import Tried
from orbit.launch.site.check import problems
from orbit.launch.site.facts import NodeFacts
from orbit.launch.site.model import Site
from orbit.launch.site.probe import Probed, head
from orbit.launch.site.text import render_site

GIB = 1 << 30
H100 = Device(name="NVIDIA H100 80GB HBM3", uuid="GPU-1", capability="9.0", memory=80 * GIB)
SLURM = {"SLURM_JOB_ID": "7", "SLURM_JOB_PARTITION": "gpu", "SLURM_JOB_NUM_NODES": "2"}
POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
CONDOR = {"_CONDOR_SCRATCH_DIR": "/var/lib/condor/execute/dir_1"}


def mount(point: str, kind: str = "ext4", *options: str) -> Mounted:
    """A mount that holds data."""
    return Mounted(point=point, kind=kind, source="x", options=options or ("rw",))


def tried(folder: str, **changed: Any) -> Tried:
    """A folder where everything works."""
    plain: dict[str, Any] = {
        "folder": folder, "at": folder, "total": 200 * GIB, "free": 100 * GIB, "executes": True, "flock": "works",
    }  # fmt: skip
    return Tried(**(plain | changed))


def adapter(**changed: Any) -> Adapter:
    """An RDMA device that works."""
    plain: dict[str, Any] = {"name": "mlx5_0", "node": "uverbs0", "present": True, "active": True, "addressed": True}
    return Adapter(**(plain | changed))


def node(**changed: Any) -> NodeFacts:
    """A bare node with eight GPUs, a local disk and Lustre."""
    plain: dict[str, Any] = {
        "env": SLURM,
        "uid": 1000,
        "processors": Processors(allowed=96),
        "cgroup": Cgroup(),
        "memory": Memory(total=1000 * GIB, available=900 * GIB, shm=500 * GIB, shm_free=500 * GIB),
        "bounds": Bounds(nofile=(1024, 131072), memlock=None),
        "mounts": (mount("/local"), mount("/lustre", "lustre")),
        "tried": {"/local": tried("/local"), "/lustre": tried("/lustre")},
        "temporary": tried("/tmp", free=10 * GIB),
        "adapters": (adapter(),),
        "taken": Taken(),
        "driver": Driver(release="580.65.06", devices=(H100,) * 8),
        "cards": 8,
        "cuda_ipc": True,
        "ipc_problem": "",
        "pyxis": "/etc/slurm/plugstack.conf",
    }
    return NodeFacts(**(plain | changed))


def check_sound(found: Probed) -> Site:
    """The site, which is sound, says the same as a file, and has a note for each value."""
    assert found.contradictions == ()
    text = render_site(found.site, found.notes, head=head(found))
    assert convert(tomllib.loads(text), Site, "text") == found.site
    assert problems(found.site) == ()
    values = [line for line in text.splitlines() if " = " in line and not line.startswith("#")]
    lines = text.splitlines()
    bare = [line for line in values if "# " not in line and not lines[lines.index(line) - 1].startswith("# ")]
    assert bare == []
    return found.site
