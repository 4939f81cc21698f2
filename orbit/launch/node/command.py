"""The command of a job: started once, asked to end when the job is, its status kept."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from orbit.core.proc import Child, session_members
from orbit.launch.node.here import ended
from orbit.launch.ray.cluster import stale_variables
from orbit.launch.ray.spec import Seen

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "busybox"})
OWN_SHARE = 0.2
OWN_MOST_S = 10.0
"""Of the time between SIGTERM and SIGKILL: what this program keeps to take Ray down and clear up."""
DEPTH = 16


def command_time(grace: float) -> float:
    """Seconds the command has to end after SIGTERM, of the scheduler's ``grace``."""
    return max(0.0, grace - min(OWN_MOST_S, grace * OWN_SHARE))


def proxy_free(env: Mapping[str, str], hosts: Iterable[str]) -> dict[str, str]:
    """``no_proxy`` in both spellings with ``hosts`` added; nothing where no proxy is set."""
    if not any(env.get(name) for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY")):
        return {}
    old = env.get("no_proxy") or env.get("NO_PROXY") or ""
    value = ",".join(dict.fromkeys([*filter(None, old.split(",")), *hosts]))
    return {"no_proxy": value, "NO_PROXY": value}


def cluster_variables(address: str, nodes: Iterable[Seen], file: Path) -> dict[str, str]:
    """What the command learns about its cluster; ``file`` has the nodes one by one."""
    known = list(nodes)
    total = {kind: int(sum(node.resources.get(kind, 0) for node in known)) for kind in ("CPU", "GPU")}
    return {
        "RAY_ADDRESS": address,
        "ORBIT_NODES": str(len(known)),
        "ORBIT_CPUS": str(total["CPU"]),
        "ORBIT_GPUS": str(total["GPU"]),
        "ORBIT_CLUSTER_FILE": str(file),
    }


def plain_environment(env: Mapping[str, str], mark: str) -> dict[str, str]:
    """The environment of a command without Ray: the job's own."""
    name, _, value = mark.partition("=")
    stale = stale_variables(env)
    return {key: text for key, text in env.items() if key not in stale} | {name: value}


def ask_to_end(child: Child) -> list[int]:
    """SIGTERM to the command; gives who got it.

    To the program alone: what it started belongs to it, and loaders of data that die by themselves would break the very
    saving that the signal is for. A shell waits for its program and passes nothing on, so its children get it, too.
    """
    reached = []
    for pid in _below(child.pid):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGTERM)
            reached.append(pid)
    return reached


async def finish(child: Child, seconds: float) -> tuple[int, bool]:
    """Wait for the end of a command that was asked to; its status, and whether it came in time.

    What a shell leaves behind when it dies of the signal is waited for as well: it is what saves.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if child.poll() is not None and not session_members(child.pid):
            return await ended(child), True
        await asyncio.sleep(0.05)
    if child.poll() is None:
        return 128 + signal.SIGKILL, False
    return await ended(child), False


def _below(pid: int) -> list[int]:
    """``pid``, and while that is a shell its children, and so on."""
    found, shells = [pid], [pid]
    for _ in range(DEPTH):
        shells = [child for shell in shells if _is_shell(shell) for child in _children(shell)]
        if not shells:
            break
        found += shells
    return found[::-1]  # the program before the shell that would take note of its end


def _is_shell(pid: int) -> bool:
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")) in SHELLS
    except OSError:
        return False


def _children(pid: int) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            if int(file.read().rpartition(b")")[2].split()[1]) == pid:
                found.append(int(name))
    return found
