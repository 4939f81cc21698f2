"""A site file: everything a job has to know of the cluster it runs on, and nothing of the job.

One file for one cluster (or one queue of it that differs). Shipped examples are in ``env/sites``; a file of one's own
is named by its path. Sizes are in GiB, times in minutes, unless a name says otherwise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from orbit.core.paths import data_root
from orbit.core.records import Record, load_toml
from orbit.errors import InputError
from orbit.launch.site.check import problems

SCHEMA = 1
SITES = "env/sites"

type Scheduler = Literal["docker", "kubernetes", "htcondor", "slurm"]
type FileSystem = Literal["local", "nfs", "lustre", "gpfs", "beegfs", "ceph", "other"]
type Wanted = Literal["none", "wanted", "required"]
type Runtime = Literal["docker", "podman", "pyxis", "apptainer", "containerd", "none"]


class Nodes(Record, frozen=True, kw_only=True):
    """What one node has. All nodes of a site are alike; where they are not, there is a file for each kind."""

    gpus: int
    """GPUs of a node; 0 for nodes without any."""
    gpu: str = ""
    """Marketing name as the driver reports it, a word of it is enough (``H100``); empty for nodes without GPUs."""
    cpus: int
    """Hardware threads a job may have on one node."""
    memory_gib: int
    """Main memory a job may have on one node."""
    most: int = 1
    """Nodes one job may have."""


class Mount(Record, frozen=True, kw_only=True):
    """A folder of the node that a job sees."""

    host: str
    """Absolute path on the node; ``${USER}`` is the submitting user's name."""
    container: str
    """Absolute path in the container."""
    read_only: bool = False
    file_system: FileSystem = "local"
    shared: bool = False
    """Whether all nodes see the same files there."""
    locks: bool = True
    """Whether ``flock`` works there. On Lustre without ``-o flock`` it does not."""
    noexec: bool = False
    """Whether it is mounted noexec: nothing compiled at run time can be loaded from there."""


class Storage(Record, frozen=True, kw_only=True):
    """Where a job may write."""

    scratch: str = ""
    """Container path of a disk of the node (state, caches, Ray's session); empty: what the scheduler gives, or /tmp."""
    scratch_gib: int = 0
    """Room there that a job can count on; 0: not known."""
    shared: str = ""
    """Container path all nodes see (checkpoints, the meeting of nodes where there is no other way); empty: none."""
    mounts: tuple[Mount, ...] = ()


class Network(Record, frozen=True, kw_only=True):
    """How nodes reach each other and the world."""

    host_network: bool = False
    """Containers use the node's own interfaces and ports."""
    rdma: Wanted = "none"
    """``wanted``: used where it is found; ``required``: a node without it is unfit."""
    cluster_domain: str = "cluster.local"
    """Kubernetes: the DNS suffix of services."""
    proxy: str = ""
    """``http://host:port`` for the world outside; nodes and localhost never go through it."""
    no_proxy: tuple[str, ...] = ()
    """Further hosts, suffixes or networks that are reached directly."""


class Limits(Record, frozen=True, kw_only=True):
    """What the site allows a container."""

    shm_gib: int = 0
    """Size of /dev/shm. 0: the job's own wish, where the scheduler lets it have one."""
    memlock: Literal["unlimited", "limited"] = "limited"
    nofile: int = 1048576
    """Hard limit of open files."""
    pids: int = 0
    """Limit of processes and threads; 0: none."""
    pidfd_getfd: bool = True
    """Whether one process may take a descriptor of another (seccomp, ``ptrace_scope``); CUDA IPC needs it."""
    cuda_ipc: bool = True
    """Whether GPU memory can be shared between processes of one container."""


class ImageSource(Record, frozen=True, kw_only=True):
    """Where the site gets images from, and what starts them."""

    runtime: Runtime
    repository: str = ""
    """``registry.example.org/team/orbit``: put before ``@sha256:...`` where a recipe names a digest alone."""
    pull_secret: str = ""
    """Kubernetes: name of the secret of type dockerconfigjson."""
    form: Literal["registry", "sif", "squashfs", "archive", "prefix"] = "registry"
    """``sif`` and ``squashfs``: a file at ``path`` instead of a registry. Without containers (``runtime = "none"``):
    ``archive``, a file of ``orbit env archive`` that each node unpacks, or ``prefix``, an environment all nodes see."""
    path: str = ""
    """Path on the node of the folder that holds those files, named ``sha256-<digest>.<form>`` (an archive ends in
    ``.tar.zst``, and its digest is the file's); with ``prefix`` of the environment itself."""
    orbit: str = "orbit"
    """With ``archive``: the program on the node that unpacks it, best an absolute path that all nodes see."""


class UserPolicy(Record, frozen=True, kw_only=True):
    """As whom a container runs."""

    policy: Literal["image", "caller", "fixed", "any"] = "image"
    """``image``: as the image says; ``caller``: the submitting user; ``fixed``: ``uid``; ``any``: the site decides."""
    uid: int = 65534
    gid: int = 65534


class SlurmSite(Record, frozen=True, kw_only=True):
    """What ``sbatch`` wants to know."""

    partition: str = ""
    account: str = ""
    qos: str = ""
    gres: str = "gpu"
    """Name of the GPU resource: ``--gres=gpu:8``."""
    options: tuple[str, ...] = ()
    """Further ``#SBATCH`` options, each as it is written (``--constraint=ib``)."""


class KubernetesSite(Record, frozen=True, kw_only=True):
    """What a pod of the site needs."""

    namespace: str = "default"
    kuberay: bool = False
    """Whether the KubeRay operator is there; otherwise a plain indexed Job is used."""
    queue: str = ""
    """Name of a Kueue LocalQueue; empty: none."""
    service_account: str = ""
    runtime_class: str = ""
    gpu_resource: str = "nvidia.com/gpu"
    rdma_resource: str = ""
    """Extended resource that brings /dev/infiniband (``rdma/hca``); empty: none."""
    node_selector: dict[str, str] = {}
    tolerations: tuple[str, ...] = ()
    """Keys of taints that are tolerated, whatever their value."""
    scratch: Literal["emptydir", "hostpath"] = "emptydir"


class HTCondorSite(Record, frozen=True, kw_only=True):
    """What ``condor_submit`` wants to know."""

    universe: Literal["docker", "container"] = "container"
    requirements: str = ""
    """ClassAd expression, beside what GPUs ask for."""
    attributes: dict[str, str] = {}
    """Further lines of the submit file: name to value, as they are written (``+ProjectName`` to ``"demo"``)."""


class Site(Record, frozen=True, kw_only=True):
    """One site file."""

    schema: int
    name: str
    description: str = ""
    scheduler: Scheduler
    nodes: Nodes
    image: ImageSource
    storage: Storage = Storage()
    network: Network = Network()
    limits: Limits = Limits()
    user: UserPolicy = UserPolicy()
    environment: dict[str, str] = {}
    """Variables every job of the site gets; the recipe's win."""
    slurm: SlurmSite = SlurmSite()
    kubernetes: KubernetesSite = KubernetesSite()
    htcondor: HTCondorSite = HTCondorSite()


def site_names() -> list[str]:
    """The shipped sites."""
    return sorted(path.stem for path in (data_root() / SITES).glob("*.toml"))


def site_path(name: str) -> Path:
    """The file of the shipped site ``name``, or ``name`` itself when it is a path; it may be missing."""
    return Path(name) if "/" in name or name.endswith(".toml") else data_root() / SITES / f"{name}.toml"


def read_site(name: str) -> Site:
    """The shipped site ``name``, or the file when ``name`` is a path; what contradicts itself in it is not judged.

    Raises :class:`InputError`.
    """
    path = site_path(name)
    if not path.exists():
        raise InputError(
            f"{name}: no such site",
            fix=f"one of {', '.join(site_names())}, or the path of a site file (orbit launch site probe writes one)",
        )
    site = load_toml(path, Site)
    if site.schema != SCHEMA:
        raise InputError(f"{path}: schema = {site.schema}", fix=f"this version of orbit reads schema {SCHEMA}")
    return site


def load_site(name: str) -> Site:
    """:func:`read_site` of a site that does not contradict itself. Raises :class:`InputError` for the first problem."""
    site = read_site(name)
    found = problems(site)
    if found:
        more = f" (and {len(found) - 1} more: orbit launch site check {name})" if len(found) > 1 else ""
        raise InputError(f"{site_path(name)}: {found[0][0]}{more}", fix=found[0][1])
    return site
