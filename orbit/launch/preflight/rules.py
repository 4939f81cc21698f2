"""What a node is held against, as data: ``env/preflight.toml``."""

from __future__ import annotations

import functools
from typing import Literal

from orbit.core.paths import data_file
from orbit.core.records import Record, load_toml
from orbit.errors import InputError

SCHEMA = 1


class Limits(Record, frozen=True, kw_only=True):
    """Thresholds; each has its reason in the file."""

    shm_mib: int
    object_store_mib: int
    object_store_share: float
    used_percent: int
    inodes: int
    pids: int
    memlock_mib: int
    address_space_gib: int
    file_size_gib: int
    memory_used_percent: int
    clock_warning_s: float
    clock_failed_s: float


class Times(Record, frozen=True, kw_only=True):
    """How long what can block may take, in seconds."""

    file_s: float
    name_s: float
    driver_s: float
    fabric_s: float
    fabric_every_s: float
    fingerprint_s: float
    stack_s: float
    group_s: float
    burn_in_s: float


class Files(Record, frozen=True, kw_only=True):
    """What is known of file systems."""

    remote: tuple[str, ...]
    """Their types, as shell patterns."""
    local_locks: tuple[str, ...]
    """Mount options with which a lock holds on one machine only."""


class DriverNeed(Record, frozen=True, kw_only=True):
    """The driver a CUDA release needs, by the first number of its release."""

    cuda: str
    """``12.8``, or ``12`` for all of them without a row of their own."""
    runs: str
    whole: str


class Xid(Record, frozen=True, kw_only=True):
    """An entry of the driver in the kernel's log."""

    number: int
    text: str


class Setting(Record, frozen=True, kw_only=True):
    """A variable that does harm when it comes along unnoticed."""

    name: str
    value: str
    """Regular expression over the whole value."""
    needs: Literal["", "gpus", "rdma"] = ""
    """What the job must have for it to matter."""
    text: str


class Rules(Record, frozen=True, kw_only=True):
    """All of ``env/preflight.toml``."""

    schema: int
    limits: Limits
    times: Times
    files: Files
    drivers: tuple[DriverNeed, ...]
    xids: tuple[Xid, ...]
    settings: tuple[Setting, ...]

    def need_of(self, cuda: str) -> DriverNeed | None:
        """What the CUDA release ``13.0`` needs; None when nothing is known of it."""
        rows = {row.cuda: row for row in self.drivers}
        return rows.get(cuda) or rows.get(cuda.partition(".")[0])


@functools.cache
def load_rules() -> Rules:
    """The shipped data. Raises :class:`InputError` naming file and key when it is wrong."""
    path = data_file("env", "preflight.toml")
    rules = load_toml(path, Rules)
    if rules.schema != SCHEMA:
        raise InputError(f"{path}: schema = {rules.schema}", fix=f"this version of orbit reads schema {SCHEMA}")
    return rules
