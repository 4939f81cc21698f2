"""What the doctor knows of a machine and of an environment: values, no doing. Detectors see nothing else."""

from __future__ import annotations

from orbit.core.findings import Finding, Skipped
from orbit.core.records import Record
from orbit.doctor.diagnosis import Look
from orbit.launch.preflight.model import Check


class Prefix(Record, frozen=True, kw_only=True):
    """An installed environment, by what its folders show in a moment."""

    path: str
    site: str
    """Absolute path of site-packages."""
    file_system: str = ""
    remote: bool = False
    """Whether that is a network file system."""
    python: str = ""
    """Where bin/python leads to; empty when there is none."""
    python_problem: str = ""
    """Why that cannot be started by this user; empty when it can."""
    packages: dict[str, str] = {}
    """Version by normalised name."""
    modules: tuple[str, ...] = ()
    """Top-level names that can be imported from site-packages."""
    num_dangling: int = 0
    dangling: tuple[str, ...] = ()
    """The first links whose target is not there, relative to site-packages; two levels are looked at."""
    hollow: tuple[str, ...] = ()
    """Packages whose __init__.py was installed and is not there."""
    has_cuda: bool = False
    """Whether the environment has a CUDA toolkit of its own (PREFIX/cuda)."""
    num_cudnn: int = 0
    """Files that cudnn's Python package would find in nvidia/cudnn/lib (libcudnn.so.*[0-9])."""
    z3_library: bool = False
    post_training: bool = False
    """megatron/post_training is there."""
    helpers: bool = False
    """The compiled part of megatron.core.datasets is there."""
    nccl_files: tuple[str, ...] = ()
    """Every libnccl.so.2 below nvidia/, relative to site-packages."""


class Cached(Record, frozen=True, kw_only=True):
    """A library in a folder of what was compiled at run time."""

    path: str
    needed: tuple[str, ...]


class Process(Record, frozen=True, kw_only=True):
    """One process, of this user or with his kind of name."""

    pid: int
    parent: int
    state: str
    """One letter of proc(5): R, S, D, Z, ..."""
    name: str
    age_s: int
    waits_s: float = 0.0
    """How long it was watched in uninterruptible sleep without being run once."""


class Loaded(Record, frozen=True, kw_only=True):
    """The watched libraries that a running process has mapped."""

    pid: int
    name: str
    libraries: tuple[str, ...]
    """Paths, sorted."""
    deleted: tuple[str, ...] = ()
    """Those whose file is not there any more."""


class Lock(Record, frozen=True, kw_only=True):
    """A file that is taken for a lock because it is there."""

    path: str
    age_s: int


class Devices(Record, frozen=True, kw_only=True):
    """GPUs, by what the kernel shows without the driver being asked."""

    on_bus: int = 0
    """NVIDIA's display devices on the PCI bus."""
    in_driver: int = 0
    """Entries of /proc/driver/nvidia/gpus."""
    nodes: int = 0
    """/dev/nvidia0, /dev/nvidia1, ..."""
    control: bool = False
    """/dev/nvidiactl, or /dev/dxg of WSL."""
    module: str = ""
    """Release of the kernel's module."""
    libraries: tuple[str, ...] = ()
    """Releases of libnvidia-ml.so that lie where the loader looks."""


class RayAddress(Record, frozen=True, kw_only=True):
    """An address of a Ray cluster that a program would use without being told one."""

    source: str
    """``RAY_ADDRESS``, or the file."""
    address: str
    answer: str
    """``open``, ``refused``, ``late``, ``unknown name``."""


class Facts(Record, frozen=True, kw_only=True):
    """Everything; what could not be looked at is empty and stands in ``skipped``."""

    variables: dict[str, str] = {}
    """Of this process, those that the doctor reads."""
    prefix: Prefix | None = None
    foreign: dict[str, tuple[str, ...]] = {}
    """Folders of LD_LIBRARY_PATH outside of the environment, with the libraries there that must not be taken."""
    compat: tuple[str, ...] = ()
    """Folders with a compatibility driver that the loader would find."""
    shadows: dict[str, tuple[str, ...]] = {}
    """Folders of PYTHONPATH with modules that site-packages has, too."""
    toolkit: bool = False
    """Whether a CUDA toolkit would be found without CUDA_HOME (nvcc on PATH, /usr/local/cuda)."""
    cached: tuple[Cached, ...] = ()
    processes: tuple[Process, ...] = ()
    loaded: tuple[Loaded, ...] = ()
    """Of these processes, those that have loaded any library that is watched."""
    listening: tuple[int, ...] = ()
    """TCP ports."""
    locks: tuple[Lock, ...] = ()
    devices: Devices = Devices()
    ray: tuple[RayAddress, ...] = ()
    oom_kills: int = 0
    """Processes of this control group that the kernel killed for memory since the group was made."""
    first_process: tuple[str, ...] = ()
    """Command line of process 1 of this container; empty outside of one."""
    docker: str = ""
    """What the client says when the engine does not answer; empty when it does, or was not asked."""
    checks: tuple[Check, ...] = ()
    """Of the preflight."""
    findings: tuple[Finding, ...] = ()
    """Of the audit."""
    looked: tuple[Look, ...] = ()
    skipped: tuple[Skipped, ...] = ()
