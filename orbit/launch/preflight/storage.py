"""Folders a job writes to: room, locks, execution, network file systems, the length of socket paths."""

from __future__ import annotations

import errno
import functools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orbit.core.paths import SOCKET_PATH_BYTES
from orbit.core.proc import own_python, run
from orbit.env.activate import SOCKETS_BYTES, load_contract
from orbit.errors import CommandFailed
from orbit.launch.preflight.aside import LateError, aside
from orbit.launch.preflight.model import Check, Demand
from orbit.launch.preflight.mounts import Mounted, mount_of
from orbit.launch.preflight.rules import Rules
from orbit.launch.preflight.say import GIB, failed, passed, size, skipped, warned

PROBE = "orbit.launch.preflight.probe_files"
GRACE_S = 3.0
"""A program that is ended on a dead file server may not go away: it is waited for so long beyond its limit."""
SCRATCH_FIX = "name a disk of the node in ORBIT_STATE (or --scratch)"
ALSO_CACHES = ("HF_HOME", "HF_HUB_CACHE", "TORCH_HOME", "WANDB_DIR")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What became of one folder."""

    folder: str
    at: str = ""
    """The folder, or the nearest one above it that is there."""
    problem: str = ""
    """Why no file could be written; ``error`` is its code (``ESTALE``)."""
    error: str = ""
    total: int = 0
    free: int = 0
    used: int = 0
    inodes: int = 0
    inodes_free: int = 0
    executes: bool = True
    flock: str = ""
    fcntl: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The folders of a job, and why each is looked at."""

    scratch: str
    sockets: str
    shared: str = ""
    caches: dict[str, str] = field(default_factory=dict)
    """Variable to folder."""

    @property
    def all(self) -> tuple[str, ...]:
        """Each once."""
        return tuple(dict.fromkeys([self.scratch, *([self.shared] if self.shared else []), *self.caches.values()]))


def find_places(demand: Demand, env: Mapping[str, str], uid: int) -> Places:
    """Which folders those are: what the job says, else what the entry point chose, else what it would choose."""
    given = next((env[name] for name in ("_CONDOR_SCRATCH_DIR", "SLURM_TMPDIR") if env.get(name)), "")
    default = os.path.join(given, ".orbit") if given else f"/tmp/orbit-{uid}"  # noqa: S108 - as the entry point does
    state = env.get("ORBIT_STATE") or default
    scratch = demand.scratch or state
    sockets = env.get("RAY_TMPDIR") or env.get("TMPDIR") or scratch
    named = [v.name for v in load_contract().variables if "{cache}" in v.value or v.value.startswith("{state}/")]
    caches = {name: env[name] for name in (*named, "XDG_CACHE_HOME", *ALSO_CACHES) if env.get(name, "").startswith("/")}
    for name, tail in (("XDG_CACHE_HOME", ".cache"), ("TRITON_CACHE_DIR", ".triton/cache")):
        if not env.get(name) and env.get("HOME", "").startswith("/"):
            caches[name] = os.path.join(env["HOME"], tail)
    return Places(scratch=os.path.abspath(scratch), sockets=sockets, shared=demand.shared, caches=caches)


def try_folders(folders: Sequence[str], mounts: Sequence[Mounted], limit_s: float) -> dict[str, Tried]:
    """Try each folder out; those of one mount in one process, all mounts at once."""
    groups: dict[str, list[str]] = {}
    for folder in folders:
        mount = mount_of(folder, mounts)
        groups.setdefault(mount.point if mount else "", []).append(folder)
    answers = [(group, aside(functools.partial(_try_group, group, limit_s))) for group in groups.values()]
    found: dict[str, Tried] = {}
    for group, answer in answers:
        try:
            tried = answer.value(limit_s + GRACE_S)
        except (LateError, OSError) as late:
            tried = {folder: Tried(folder=folder, problem=f"{folder}: {late}", error="ETIMEDOUT") for folder in group}
        found |= tried
    return found


def _try_group(group: Sequence[str], limit_s: float) -> dict[str, Tried]:
    """One process for these; a folder without an answer has none in time."""
    said, ended = b"", f"no answer within {limit_s:g} s"
    try:
        order = json.dumps({"folders": list(group)}).encode()
        done = run(own_python(PROBE), doing="trying folders", stdin=order, timeout_s=limit_s, check=False)
        said, tail = done.stdout, done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        ended = f"the process that tries it ended with status {done.returncode}: {' '.join(tail)}"
    except CommandFailed as late:
        said = late.tail.encode()
    lines: list[dict[str, Any]] = []
    for line in said.splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    found = {answer["folder"]: Tried(**answer) for answer in lines}
    lost = [folder for folder in group if folder not in found]
    return found | {folder: Tried(folder=folder, problem=f"{folder}: {ended}", error="ETIMEDOUT") for folder in lost}


def judge_storage(
    places: Places, tried: Mapping[str, Tried], mounts: Sequence[Mounted], demand: Demand, rules: Rules
) -> Iterator[Check]:
    """``scratch``, ``scratch-room``, ``socket-path``, ``shared-folder``, ``file-locks`` and ``caches``."""
    scratch = tried[places.scratch]
    yield _scratch(scratch, mount_of(places.scratch, mounts), rules)
    yield _room(scratch, mount_of(places.scratch, mounts), demand, rules)
    yield _sockets(places.sockets)
    if places.shared:
        yield _shared(tried[places.shared], mount_of(places.shared, mounts), rules)
    else:
        yield skipped("shared-folder", "no folder of all nodes is named")
    yield _locks(places, tried)
    yield _caches(places, tried, mounts, rules)


def _scratch(tried: Tried, mount: Mounted | None, rules: Rules) -> Check:
    name, kind = "scratch", mount.kind if mount else "an unknown file system"
    if tried.problem:
        return failed(name, _problem(tried), _problem_fix(tried, SCRATCH_FIX), error=tried.error)
    found = {"folder": tried.folder, "file_system": kind, "seconds": tried.seconds}
    if not tried.executes:
        text = f"{tried.folder} is mounted noexec: libraries compiled at run time cannot be loaded from there"
        return failed(name, text, f"docker: --tmpfs /tmp:exec; else {SCRATCH_FIX}", **found)
    if mount is not None and mount.is_remote(rules.files):
        text = f"{tried.folder} is on {kind}: kernels compiled there by many processes end in stale handles"
        return warned(name, text, SCRATCH_FIX, **found)
    return passed(name, f"{tried.folder} on {kind} can be written", **found)


def _room(tried: Tried, mount: Mounted | None, demand: Demand, rules: Rules) -> Check:
    name, wanted, most = "scratch-room", demand.scratch_gib * GIB, rules.limits.used_percent
    if tried.problem or not tried.total:
        return skipped(name, "the folder cannot be written, see scratch" if tried.problem else "its size is not told")
    # as shutil.disk_usage and Ray count it: what only root may use is not free
    percent = 100 * (1 - tried.free / tried.total)
    found = {"free_bytes": tried.free, "total_bytes": tried.total, "used_percent": f"{percent:.1f}"}
    if tried.free < wanted:
        text = f"{tried.folder} has {size(tried.free)} free, {size(wanted)} are needed"
        return failed(name, text, f"delete what old jobs left there, or {SCRATCH_FIX}", **found)
    if percent >= most:
        text = f"{tried.folder} is {percent:.1f} % full, Ray stops at {most} % ({size(tried.free)} are free)"
        return failed(name, text, f"delete what old jobs left there, or {SCRATCH_FIX}", **found)
    if tried.inodes and tried.inodes_free < rules.limits.inodes:
        text = f"{tried.folder} can take {tried.inodes_free} more files, {rules.limits.inodes} are needed"
        return failed(name, text, f"delete small files there, or {SCRATCH_FIX}", **found)
    if mount is not None and mount.kind in ("tmpfs", "ramfs") and wanted:
        text = f"{tried.folder} is a {mount.kind}: {size(wanted)} written there are memory of this job"
        return warned(name, text, SCRATCH_FIX, **found)
    return passed(name, f"{tried.folder} has {size(tried.free)} free ({percent:.0f} % full)", **found)


def _sockets(folder: str) -> Check:
    name, length = "socket-path", len(os.fsencode(folder.rstrip("/")))
    if length > SOCKETS_BYTES:
        text = (
            f"{folder} has {length} bytes; a socket's path holds {SOCKET_PATH_BYTES}, Ray appends "
            f"{SOCKET_PATH_BYTES - SOCKETS_BYTES}, so {SOCKETS_BYTES} are left"
        )
        fix = "name a shorter folder in RAY_TMPDIR and TMPDIR; orbit-entrypoint makes a short link to a long one"
        return failed(name, text, fix, bytes=length)
    return passed(name, f"{folder} has {length} bytes of {SOCKETS_BYTES}", bytes=length)


def _shared(tried: Tried, mount: Mounted | None, rules: Rules) -> Check:
    name, kind = "shared-folder", mount.kind if mount else "an unknown file system"
    if tried.problem:
        return failed(name, _problem(tried), _problem_fix(tried, "mount it on every node, writable for the job's user"))
    found = {"folder": tried.folder, "file_system": kind, "seconds": tried.seconds, "free_bytes": tried.free}
    if tried.at != tried.folder and os.path.dirname(tried.folder) != tried.at:
        text = f"{tried.folder} is not there, and neither is the folder above it ({tried.at} is)"
        return failed(name, text, "is the file system mounted on this node?", **found)
    if mount is not None and not mount.is_remote(rules.files):
        text = f"{tried.folder} is on {kind}, which looks like a disk of this node"
        return warned(name, text, "name a folder that all nodes see; the nodes find out when they meet", **found)
    option = mount.local_locks(rules.files) if mount is not None else ""
    if option:
        text = f"{tried.folder} is mounted with {option}: a lock there is not seen by other nodes"
        return warned(name, text, "Orbit locks nothing across nodes; other programs must not either", **found)
    return passed(name, f"{tried.folder} on {kind} can be written", **found)


def _locks(places: Places, tried: Mapping[str, Tried]) -> Check:
    """Caches and scratch must lock; the shared folder need not, but it is told."""
    name = "file-locks"
    said = {folder: _lock_problem(tried[folder]) for folder in places.all if not tried[folder].problem}
    bad = {folder: problem for folder, problem in said.items() if problem}
    needed = [folder for folder in bad if folder != places.shared]
    if needed:
        whose = next((variable for variable, folder in places.caches.items() if folder == needed[0]), "scratch")
        fix = f"put it on a disk of the node: {SCRATCH_FIX}; Lustre: mount with -o flock"
        return failed(name, f"{needed[0]} ({whose}): {bad[needed[0]]}", fix, **bad)
    if bad:
        folder, problem = next(iter(bad.items()))
        return warned(name, f"{folder} (shared): {problem}", "Orbit needs no locks there; other programs may", **bad)
    return passed(name, f"flock and fcntl keep others out in {len(said)} folders")


def _lock_problem(tried: Tried) -> str:
    for kind, answer in (("flock", tried.flock), ("fcntl", tried.fcntl)):
        if answer == "held":
            return f"{kind} says that another one holds a lock on a file nobody else knows: there are no locks"
        if answer == "shared":
            return f"{kind} gives one lock to two holders"
        if answer.startswith("missing"):
            code = answer.split()[-1]
            text = os.strerror(getattr(errno, code)) if hasattr(errno, code) else "unknown error"
            return f"{kind} is not supported ({code}, {text})"
    return ""


def _caches(places: Places, tried: Mapping[str, Tried], mounts: Sequence[Mounted], rules: Rules) -> Check:
    name = "caches"
    for variable, folder in places.caches.items():
        if tried[folder].problem:
            text = f"{variable}: {_problem(tried[folder])}"
            return failed(name, text, _problem_fix(tried[folder], f"start through orbit-entrypoint, or set {variable}"))
        if not tried[folder].executes and not variable.startswith(("HF_", "WANDB_", "TORCH_HOME")):
            text = f"{variable}={folder} is mounted noexec: what is compiled there cannot be loaded"
            return failed(name, text, f"docker: --tmpfs /tmp:exec; else set {variable}", folder=folder)
    remote = {v: f for v, f in places.caches.items() if (m := mount_of(f, mounts)) and m.is_remote(rules.files)}
    compiled = {v: f for v, f in remote.items() if not v.startswith(("HF_", "WANDB_", "TORCH_HOME"))}
    if compiled:
        variable, folder = next(iter(compiled.items()))
        mount = mount_of(folder, mounts)
        kind = mount.kind if mount else ""
        text = f"{variable}={folder} is on {kind}: many processes compile kernels there and get stale handles"
        return warned(name, text, f"{SCRATCH_FIX} and start through orbit-entrypoint", **compiled)
    return passed(name, f"{len(places.caches)} cache folders can be written", **places.caches)


def _problem(tried: Tried) -> str:
    return tried.problem if tried.folder in tried.problem else f"{tried.folder}: {tried.problem}"


def _problem_fix(tried: Tried, usual: str) -> str:
    return {
        "ESTALE": "the file server lost this mount: unmount and mount it again on the node, or take another node",
        "ETIMEDOUT": "the file server does not answer: look at dmesg on the node, or take another node",
        "ENOSPC": f"the disk is full: delete something there, or {SCRATCH_FIX}",
        "EDQUOT": "a quota is used up: delete something there (df does not show it; try quota -s)",
        "EROFS": f"it is mounted read-only: {usual}",
        "ENOTCONN": "the mount is broken (its program died): mount it again on the node, or take another node",
        "EIO": "the disk or its server reports errors: look at dmesg on the node, or take another node",
    }.get(tried.error, usual)
