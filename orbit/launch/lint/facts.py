"""What a manifest says, whatever it is written in: workloads, pods, containers. Nothing is judged here.

One model for five languages: a docker line is a workload of one pod with one container, a Slurm script one of as many
pods as it has nodes. Everything that a finding may point at carries its line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

type Form = Literal["kubernetes", "compose", "shell", "slurm", "htcondor"]
type Role = Literal["main", "sidecar", "init", "head", "worker", "submitter"]
type ShmKind = Literal["default", "sized", "memory", "disk", "host", "operator", "other"]

SOME = -1
"""A number of GPUs that is not known, and not nothing (``--gpus all``)."""
DEFAULT_SHM_BYTES = 64 << 20
"""Shared memory of a container that says nothing: docker, containerd and Podman alike."""


class Word(NamedTuple):
    """A value and the line it stands on."""

    text: str
    line: int


class Env(NamedTuple):
    """A variable of a container."""

    name: str
    value: str | None
    """None: taken from elsewhere (a secret, the caller's environment)."""
    line: int
    is_text: bool = True
    """False: written as a bare number or truth value where Kubernetes wants a string."""


class Volume(NamedTuple):
    """What a name in ``volumeMounts`` stands for."""

    name: str
    kind: str
    """``emptyDir``, ``hostPath``, ``nfs``, ``persistentVolumeClaim``, ... as the manifest spells it."""
    path: str
    """Of the node (hostPath) or the server (nfs)."""
    medium: str
    size: str
    line: int


class Mount(NamedTuple):
    """A folder mounted into a container."""

    path: str
    volume: Volume | None
    name: str
    read_only: bool
    line: int


class Port(NamedTuple):
    """A port of a container."""

    number: int
    host: int
    """On the node; 0: none."""
    name: str
    protocol: str
    line: int


class Shm(NamedTuple):
    """What a container has at /dev/shm."""

    kind: ShmKind
    size: int
    """Bytes, where ``kind`` is ``sized`` or ``default``."""
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container."""

    name: str
    role: Role
    line: int
    image: Word | None = None
    command: tuple[Word, ...] = ()
    """What takes the place of the image's entry point."""
    args: tuple[Word, ...] = ()
    env: tuple[Env, ...] = ()
    requests: dict[str, Word]
    limits: dict[str, Word]
    mounts: tuple[Mount, ...] = ()
    ports: tuple[Port, ...] = ()
    pull_policy: Word | None = None
    uid: int | None = None
    """The user that the manifest names; None: the image's."""
    non_root: bool = False
    privileged: Word | None = None
    added: tuple[Word, ...] = ()
    """Capabilities."""
    shm: Shm
    gpus: int = 0
    """:data:`SOME` where the number is not said."""
    gpu_line: int = 0
    options: dict[str, Word]
    """What only one language has: flags of docker, keys of compose."""

    @property
    def words(self) -> tuple[Word, ...]:
        """Command and arguments."""
        return (*self.command, *self.args)

    def variable(self, name: str) -> Env | None:
        """A variable by its name."""
        return next((env for env in self.env if env.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """Containers that share a node, an address and a life."""

    name: str
    line: int
    role: Role = "main"
    count: int = 1
    """How many of them there are (replicas, nodes); at most."""
    containers: tuple[Container, ...] = ()
    volumes: dict[str, Volume]
    host_network: Word | None = None
    host_ipc: Word | None = None
    dns_policy: str = ""
    apart: bool = False
    """Whether an anti-affinity keeps two of them off one node."""
    restart: Word | None = None
    grace: Word | None = None
    """Seconds between SIGTERM and SIGKILL, as written."""
    params: dict[str, Word]
    """``rayStartParams``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One thing a scheduler is asked to run."""

    kind: str
    """``RayJob``, ``Deployment``, ``docker run``, ``sbatch``, ``submit``, ``service``."""
    name: str
    line: int
    pods: tuple[Pod, ...]
    settings: dict[str, Word]
    """What the rules want to know of it, by its own spelling (``rayVersion``, ``backoffLimit``, ``cpus-per-task``)."""
    script: tuple[Word, ...] = ()
    """Shell text that runs beside the containers (the entrypoint of a RayJob, the body of a batch script)."""

    @property
    def is_ray(self) -> bool:
        """Whether the KubeRay operator makes its pods."""
        return self.kind in ("RayCluster", "RayJob", "RayService")


class Flaw(NamedTuple):
    """What the reader itself stumbled over."""

    rule: str
    what: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One file."""

    file: str
    form: Form | None
    """None: it could not be told, or not be read; ``flaws`` say why."""
    text: str = ""
    workloads: tuple[Workload, ...] = ()
    flaws: tuple[Flaw, ...] = ()
    documents: int = 0
    is_template: bool = False
    """Not YAML because a program has yet to fill it in."""

    def seats(self) -> Iterator[tuple[Workload, Pod, Container]]:
        """Every container with what it is in."""
        for workload in self.workloads:
            for pod in workload.pods:
                for container in pod.containers:
                    yield workload, pod, container
