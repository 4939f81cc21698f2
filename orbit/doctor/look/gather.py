"""All facts, one part after the other: each timed, and each that cannot be had told with the reason."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from orbit.core.console import Progress
from orbit.core.findings import Finding, Skipped
from orbit.doctor.diagnosis import Look
from orbit.doctor.facts import Devices, Facts, Prefix, Process
from orbit.doctor.look import paths, system
from orbit.doctor.look.mapped import read_loaded
from orbit.doctor.look.node import node_checks
from orbit.doctor.look.prefix import default_prefix, read_prefix
from orbit.errors import OrbitError
from orbit.launch.preflight.mounts import read_mounts
from orbit.launch.preflight.rules import load_rules

READ = re.compile(
    r"^(?:PATH|HOME|USER|LOGNAME|TMPDIR|TEMP|TMP|PYTHONPATH|PYTHONHOME|LD_LIBRARY_PATH|LD_PRELOAD|VIRTUAL_ENV|CONDA_PREFIX"
    r"|XDG_CACHE_HOME|OMP_NUM_THREADS|MASTER_ADDR|MASTER_PORT|WANDB_MODE|WANDB_DIR|HF_HOME|HF_HUB_OFFLINE|UV_CACHE_DIR"
    r"|UV_LINK_MODE|KUBERNETES_SERVICE_HOST|KUBERNETES_SERVICE_PORT|[A-Z_]+_CACHE_DIR|[a-z]+_proxy|[A-Z]+_PROXY"
    r"|(?:ORBIT|CUDA|NVIDIA|NCCL|RAY|TORCH|PYTORCH|TORCHINDUCTOR|TRITON|FLASHINFER|SGLANG|SLURM|_CONDOR|GLOO|OMPI)_?[A-Za-z_0-9]*)$"
)
"""Names of variables that are looked at; of all others nothing is kept, not even the name."""


class Deeper(Protocol):
    """What takes longer than a moment."""

    def findings(self, prefix: Path, progress: Progress) -> tuple[Finding, ...]:
        """What the audit says of an environment."""


@dataclass(slots=True)
class _Notes:
    """What is found on the way."""

    progress: Progress
    looked: list[Look] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def look[T, D](self, what: str, call: Callable[[], T], otherwise: D) -> T | D:
        """The value of ``call``; ``otherwise``, with the reason kept, where it cannot be had."""
        began = time.monotonic()
        self.progress.step(what)
        try:
            found = call()
        except (OSError, OrbitError) as error:
            reason = error.what if isinstance(error, OrbitError) else str(error)
            self.skip(what, reason)
            return otherwise
        self.looked.append(Look(what=what, seconds=round(time.monotonic() - began, 3)))
        return found

    def skip(self, what: str, reason: str, estimate: str = "") -> None:
        """Not looked at."""
        self.skipped.append(Skipped(what=what, reason=reason, estimate=estimate))


def gather(
    env: Mapping[str, str],
    *,
    prefix: Path | None,
    own: str,
    deeper: Deeper | None = None,
    progress: Progress,
    root: Path = Path("/"),
) -> Facts:
    """The facts of this machine and of the environment at ``prefix`` (default: the active one, else ``own``).

    ``deeper``: what takes long is looked at as well, with these. ``root``: where /proc, /sys and /dev are.

    Raises :class:`orbit.errors.InputError` when ``prefix`` is named and is no environment.
    """
    notes = _Notes(progress)
    mounts = notes.look("mounts", lambda: read_mounts(root), ())
    files = load_rules().files
    if prefix is not None:
        read_prefix(prefix, mounts, files)
    place = prefix or default_prefix(env, own)
    here: Prefix | None = notes.look("environment", lambda: read_prefix(place, mounts, files), None)
    folders = paths.compile_folders(env)
    cached, more = notes.look("compile caches", lambda: paths.read_cached(folders), ((), False))
    if more:
        notes.skip("compile caches", f"there are more than {paths.MOST_LIBRARIES} libraries")
    uid = os.getuid()
    processes: tuple[Process, ...] = notes.look("processes", lambda: system.read_processes(root, uid), ())
    values: dict[str, Any] = {
        "variables": {name: value for name, value in sorted(env.items()) if READ.match(name)},
        "prefix": here,
        "foreign": notes.look("loader", lambda: paths.foreign_libraries(env, here), {}),
        "compat": paths.compat_drivers(env, root),
        "shadows": paths.shadowing(env, here),
        "toolkit": paths.has_toolkit(env),
        "cached": cached,
        "processes": processes,
        "loaded": notes.look("loaded libraries", lambda: read_loaded(root, processes), ()),
        "listening": notes.look("ports", lambda: system.read_listening(root), ()),
        "locks": notes.look("locks", lambda: paths.read_locks(folders), ()),
        "devices": notes.look("GPUs (without the driver)", lambda: system.read_devices(root), Devices()),
        "ray": notes.look("Ray's address", lambda: system.read_ray(root, env), ()),
        "oom_kills": notes.look("control group", lambda: system.read_oom_kills(root), 0),
        "first_process": system.read_first_process(root),
    }
    how: dict[str, Any] = {"env": env, "here": here, "gpus": values["devices"].nodes, "root": root}
    values |= _deep(notes, deeper=deeper, **how) if deeper else _quick(notes, **how)
    return Facts(**values, looked=tuple(notes.looked), skipped=tuple(notes.skipped))


def _quick(notes: _Notes, *, env: Mapping[str, str], here: Prefix | None, gpus: int, root: Path) -> dict[str, Any]:
    """The part of the preflight that takes a moment."""
    place = Path(here.path) if here else None
    checks = notes.look("node", lambda: node_checks(root, env, gpus=0, prefix=place), ())
    if gpus:
        notes.skip(f"{gpus} GPUs", "--deep asks their driver, and tests them", "a minute or two")
    notes.skip("files of the environment", "--deep audits them", "a minute for 10 GB")
    notes.skip("docker", "--deep asks its engine")
    return {"checks": checks}


def _deep(
    notes: _Notes, *, env: Mapping[str, str], here: Prefix | None, deeper: Deeper, gpus: int, root: Path
) -> dict[str, Any]:
    """The whole preflight, the audit, and docker's engine."""
    place = Path(here.path) if here else None
    checks = notes.look("node", lambda: node_checks(root, env, gpus=gpus, prefix=place), ())
    findings: tuple[Finding, ...] = ()
    if place is None:
        notes.skip("files of the environment", "there is no environment to look at")
    else:
        findings = notes.look("files of the environment", lambda: deeper.findings(place, notes.progress), ())
    docker = notes.look("docker", lambda: system.ask_docker(env), "")
    return {"checks": checks, "findings": findings, "docker": docker}
