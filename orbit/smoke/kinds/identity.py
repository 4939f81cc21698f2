"""Whether the run is really what the report says: this user, no way to write the image, no network, no capability."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from orbit.smoke.model import CheckError, Context


def check_identity(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Prove the conditions of the run.

    ``read_only``: folders that must refuse a new file from every user. ``root_only``: files that root may read and
    nobody else (asked of every other user; where a kernel lacks one it is passed over). In place the job's conditions
    are what they are: they are told, and only a user that is root by another name is a fault.
    """
    if context.in_place:
        return _in_place(parameters)
    problems = list(user_faults(os.getuid(), context.uid, effective_capabilities()))
    if os.getuid() != 0:
        secrets = [path for path in parameters.get("root_only", ()) if os.path.exists(path)]
        problems.extend(f"{path}: is readable for uid {os.getuid()}" for path in secrets if readable(path))
    for folder in parameters.get("read_only", ()):
        place = sys.prefix if folder == "{prefix}" else str(folder)
        if not os.path.isdir(place):
            problems.append(f"{place}: no such folder")
        elif writable(place):
            problems.append(f"{place}: is writable")
    if not writable(tempfile.gettempdir()):
        problems.append(f"{tempfile.gettempdir()}: is not writable")
    interfaces = sorted(name for _, name in socket.if_nameindex() if name != "lo")
    up = [name for name in interfaces if _has_route(name)]
    if up:
        problems.append(f"network interfaces with a route: {', '.join(up)}")
    if problems:
        raise CheckError("; ".join(problems))
    return {"summary": f"uid {os.getuid()}, read-only root, no network", "uid": os.getuid(), "gid": os.getgid()}


def _in_place(parameters: Mapping[str, Any]) -> dict[str, Any]:
    problems = user_faults(os.getuid(), None, effective_capabilities())
    if problems:
        raise CheckError("; ".join(problems))
    places = [sys.prefix if folder == "{prefix}" else str(folder) for folder in parameters.get("read_only", ())]
    open_to_writes = [place for place in places if os.path.isdir(place) and writable(place)]
    root = f"can write {', '.join(open_to_writes)}" if open_to_writes else "read-only root"
    return {"summary": f"in place: uid {os.getuid()}, {root}", "uid": os.getuid(), "writable": open_to_writes}


def user_faults(uid: int, wanted: int | None, capabilities: int) -> list[str]:
    """What is wrong with the user this process runs as."""
    problems = []
    if wanted is not None and uid != wanted:
        problems.append(f"runs as uid {uid} instead of {wanted}")
    if uid != 0 and capabilities:
        problems.append(f"uid {uid} holds capabilities ({capabilities:#x}): it is root by another name")
    return problems


def effective_capabilities() -> int:
    """The bit mask of this process's effective capabilities."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        return next((int(line.split()[1], 16) for line in status if line.startswith("CapEff:")), 0)


def readable(path: str) -> bool:
    """Whether ``path`` can really be opened by this process."""
    try:
        with open(path, "rb"):
            return True
    except PermissionError:
        return False


def writable(folder: str) -> bool:
    """Whether a file can really be made in ``folder`` (not what the mode bits promise)."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _has_route(interface: str) -> bool:
    with open("/proc/net/route", encoding="ascii") as routes:
        return any(line.split()[0] == interface for line in routes.readlines()[1:])
