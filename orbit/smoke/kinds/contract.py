"""Whether the process has what the activation contract promises, whoever started it and however."""

from __future__ import annotations

import os
import re
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from orbit.core.paths import SOCKET_PATH_BYTES
from orbit.smoke.model import CheckError, Context

RAY_SOCKET = "ray/session_2026-11-30_10-00-00_123456_1234567/sockets/plasma_store"
"""What Ray 2.55 appends to $RAY_TMPDIR (``ray._private.node``), with the longest process id Linux has."""
IDENTITY = re.compile(r"/cache/[0-9a-f]{12}/[^/]+(/|$)")
"""``{state}/cache/<environment>/<kind of GPU>``."""
REMOTE = re.compile(r"nfs\d?|lustre|gpfs|beegfs|ceph|cifs|smb\d?|9p|afs|panfs|wekafs|fuse\..*")


def check_contract(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Look at the environment of this process, and try what it promises.

    ``caches``: variables whose folder must belong to this environment and this kind of GPU and can be written.
    """
    del context
    problems = [
        *state_faults(os.environ),
        *cache_faults(os.environ, parameters["caches"]),
        *user_faults(os.environ),
        *library_faults(os.environ, sys.prefix),
        *_socket_faults(),
    ]
    if problems:
        raise CheckError("; ".join(problems))
    state = os.environ["ORBIT_STATE"]
    facts = {
        name: os.environ.get(name, "") for name in ("ORBIT_STATE", "ORBIT_STATE_FS", "ORBIT_GPU", "TMPDIR", "HOME")
    }
    return {"summary": f"state {state} ({facts['ORBIT_STATE_FS']}), caches for {facts['ORBIT_GPU']}", **facts}


def state_faults(env: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with the folders that are written to."""
    state = env.get("ORBIT_STATE", "")
    if not state:
        yield "ORBIT_STATE is not set: the entry point did not run (call orbit-entrypoint COMMAND)"
        return
    for name in ("ORBIT_STATE", "TMPDIR", "RAY_TMPDIR"):
        place = env.get(name, "")
        if not place or not _writable(place):
            yield f"{name}={place}: nothing can be written there"
    if REMOTE.fullmatch(env.get("ORBIT_STATE_FS", "")):
        yield f"ORBIT_STATE={state} is on {env['ORBIT_STATE_FS']}: name a disk of the node in ORBIT_STATE"


def cache_faults(env: Mapping[str, str], names: object) -> Iterator[str]:
    """What is wrong with the caches of code compiled at run time."""
    if not isinstance(names, list | tuple) or not names:
        yield "caches is empty: nothing was looked at"
        return
    for name in names:
        place = env.get(str(name), "")
        if not IDENTITY.search(place):
            yield f"{name}={place}: does not say for which environment and GPU"
        elif not _writable(place):
            yield f"{name}={place}: nothing can be written there"


def user_faults(env: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with name and home."""
    if not env.get("USER") or not env.get("LOGNAME"):
        yield "USER or LOGNAME is not set: packages that ask for a name fail without an entry in /etc/passwd"
    home = env.get("HOME", "")
    if home in ("", "/") or not _writable(home):
        yield f"HOME={home}: nothing can be written there"


def library_faults(env: Mapping[str, str], prefix: str) -> Iterator[str]:
    """What could come before the environment's own libraries and modules."""
    own = (prefix, "/usr/local/nvidia", "/usr/lib/wsl", "/.singularity.d")
    for place in filter(None, env.get("LD_LIBRARY_PATH", "").split(":")):
        if not place.startswith(own):
            yield f"LD_LIBRARY_PATH names {place}: libraries of the host would replace those of the lock"
        elif place.startswith(prefix) and os.path.lexists(f"{place}/libcuda.so.1"):
            yield f"{place}/libcuda.so.1: would replace the driver's own"
    for name in ("PYTHONPATH", "PYTHONHOME", "CONDA_PREFIX", "VIRTUAL_ENV"):
        if env.get(name):
            yield f"{name}={env[name]}: lets foreign modules in"


def _socket_faults() -> Iterator[str]:
    """Make the longest socket there will be."""
    folder = os.environ.get("RAY_TMPDIR", "")
    path = f"{folder}/{RAY_SOCKET}"
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_BYTES:
        yield f"RAY_TMPDIR={folder}: a socket's path would have {length} bytes, {SOCKET_PATH_BYTES} are there"
        return
    with tempfile.TemporaryDirectory() as name, socket.socket(socket.AF_UNIX) as one:
        try:
            one.bind(f"{name}/s")
        except OSError as error:
            yield f"TMPDIR={tempfile.gettempdir()}: no socket can be made there: {error}"


def _writable(folder: str) -> bool:
    try:
        with tempfile.NamedTemporaryFile(dir=folder):
            return True
    except OSError:
        return False
