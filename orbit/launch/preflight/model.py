"""What a job demands of a node, what the node has, and what was found: values, no doing."""

from __future__ import annotations

from enum import StrEnum

from orbit.core.records import Record
from orbit.launch.fingerprint.model import Fingerprint
from orbit.launch.site.model import Wanted

SCHEMA = "orbit.preflight/1"


class State(StrEnum):
    """What became of a check. Only ``failed`` makes a node unfit; ``skipped`` always has its reason."""

    PASSED = "passed"
    FAILED = "failed"
    WARNING = "warning"
    SKIPPED = "skipped"


class Demand(Record, frozen=True, kw_only=True):
    """What one node must have. The defaults demand nothing."""

    image: str = ""
    """``sha256:...`` that must run here."""
    gpus: int = 0
    cpus: int = 0
    memory_gib: int = 0
    shm_gib: int = 0
    scratch: str = ""
    """Folder that is written to; empty: the state folder."""
    scratch_gib: int = 0
    nofile: int = 65536
    rdma: Wanted = "none"
    burn_in: bool = False
    head: str = ""
    """Host name or address of the first node; empty on it, and where nodes meet in a folder."""
    shared: str = ""
    """Folder all nodes see; empty: none."""
    ports: tuple[int, ...] = ()
    """One of which must be free on the first node."""


class Check(Record, frozen=True, kw_only=True):
    """One thing that was looked at."""

    name: str
    """Stable id: ``shared-memory``; docs/preflight.md has a line of this name."""
    state: State
    message: str
    """One sentence: the limit, the value found."""
    fix: str = ""
    """What to do; never empty when failed."""
    found: dict[str, str] = {}
    """Values, for programs."""
    seconds: float = 0.0


class Measured(Record, frozen=True, kw_only=True):
    """What the choice of transports rests on. None: not measured, with the reason in the check of that name."""

    cuda_ipc: bool | None = None
    """GPU memory of one process was opened and read by another."""
    pidfd_getfd: bool | None = None
    peer_access: bool | None = None
    """Every GPU reads every other one's memory directly."""
    shm_bytes: int | None = None
    memlock_bytes: int | None = None
    """Locked memory a process may have; -1: no limit."""
    rdma: tuple[str, ...] = ()
    """Usable RDMA devices (``mlx5_0``)."""
    interface: str = ""
    """Network interface on the way to the first node."""
    address: str = ""
    """This node's address there."""


class NodeReport(Record, frozen=True, kw_only=True):
    """What one node says of itself."""

    schema: str = SCHEMA
    rank: int = 0
    host: str
    started: str
    """UTC, ISO 8601."""
    seconds: float
    demand: Demand
    checks: tuple[Check, ...]
    measured: Measured = Measured()
    fingerprint: Fingerprint | None = None

    @property
    def fit(self) -> bool:
        """Whether the job may run here."""
        return not any(check.state is State.FAILED for check in self.checks)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why not: the message of each check that failed."""
        return tuple(check.message for check in self.checks if check.state is State.FAILED)
