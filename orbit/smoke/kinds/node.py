"""What a node must offer beside the image: each check is a failure that jobs have had, named before they have it.

Asked inside the container, where the job will run; nothing of the stack is imported.
"""

from __future__ import annotations

import fcntl
import http.server
import os
import platform
import resource
import shutil
import socket
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from orbit.core.proc import run
from orbit.smoke.kinds.device import describe, device_count, target_of
from orbit.smoke.model import CheckError, Context

MIB = 1 << 20
SHARED = "/dev/shm"  # noqa: S108 - its size is asked
PIDFD_OPEN, PIDFD_GETFD = 434, 438
"""System call numbers, equal on x86-64 and arm64 (include/uapi/asm-generic/unistd.h)."""
TAKER = f"""
import ctypes, os
gate, opened = os.pipe()
holder = os.fork()
if holder == 0:
    os.close(opened)
    os.read(gate, 1)
    os._exit(0)
taker = os.fork()
if taker == 0:
    libc = ctypes.CDLL(None, use_errno=True)
    pid = libc.syscall({PIDFD_OPEN}, holder, 0)
    taken = libc.syscall({PIDFD_GETFD}, pid, 0, 0) if pid >= 0 else -1
    os._exit(0 if taken >= 0 else ctypes.get_errno())
status = os.waitstatus_to_exitcode(os.waitpid(taker, 0)[1])
os.close(opened)
os.waitpid(holder, 0)
print(status)
"""
"""Two children of one parent: the second asks for the first one's standard input."""
INFINIBAND = Path("/sys/class/infiniband")
VERBS = Path("/dev/infiniband")


def check_shared_memory(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """There are at least ``least_mb`` MiB of shared memory in all. Engines give 64 MB when nothing is said."""
    del context
    least_mb = int(parameters["least_mb"])
    try:
        size_mb = shutil.disk_usage(SHARED).total // MIB
    except OSError as error:
        raise CheckError(f"{SHARED}: {error.strerror}") from None
    if size_mb < least_mb:
        raise CheckError(
            f"{SHARED} holds {size_mb} MB, {least_mb} are needed by NCCL, Ray and data loaders "
            "(docker, podman: --shm-size=16g or --ipc=host; Kubernetes: an emptyDir with medium Memory on /dev/shm)"
        )
    return {"summary": f"{SHARED} holds {size_mb} MB", "shm_mb": size_mb}


def check_limits(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Open files, and locked memory where there is RDMA. Soft limits count: that is what a job gets."""
    del context
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    problems = list(limit_faults(files, locked, int(parameters["least_files"]), rdma=VERBS.is_dir()))
    if problems:
        raise CheckError("; ".join(problems))
    return {"summary": f"{_amount(files)} open files, {_amount(locked)} bytes locked", "files": files, "locked": locked}


def limit_faults(files: int, locked: int, least_files: int, *, rdma: bool) -> Iterator[str]:
    """What is too small."""
    if files != resource.RLIM_INFINITY and files < least_files:
        yield f"{files} open files, Ray needs {least_files} (docker: --ulimit nofile=65536:1048576)"
    if rdma and locked != resource.RLIM_INFINITY and locked < 1 << 30:
        yield f"{locked} bytes of locked memory, RDMA registers far more (docker: --ulimit memlock=-1)"


def _amount(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else str(limit)


def check_state(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """The state folder has ``least_free_mb`` MiB, knows file locks, and what is compiled there can be run."""
    del context
    state = Path(os.environ.get("ORBIT_STATE") or tempfile.gettempdir())
    free_mb = shutil.disk_usage(state).free // MIB
    problems = []
    if free_mb < int(parameters["least_free_mb"]):
        problems.append(f"{state}: {free_mb} MB free, {parameters['least_free_mb']} are needed")
    with tempfile.TemporaryDirectory(dir=state) as name:
        program = Path(name) / "program"
        program.write_text("#!/bin/sh\nexit 0\n")
        program.chmod(0o700)
        with open(program, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                problems.append(f"{state}: no file locks ({error.strerror}): a network file system?")
        if not os.access(program, os.X_OK):
            problems.append(
                f"{state}: mounted noexec, nothing compiled there can be loaded (docker: --tmpfs /tmp:exec)"
            )
    if problems:
        raise CheckError("; ".join(problems))
    return {"summary": f"{state}: {free_mb} MB free", "free_mb": free_mb}


def check_loopback(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """A server of this machine answers under its own names, whatever proxy is set: that is how engines warm up."""
    del parameters, context
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Silent) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        try:
            for host in ("127.0.0.1", "localhost"):
                with urllib.request.urlopen(f"http://{host}:{port}/", timeout=10) as answer:
                    if answer.read() != _Silent.TEXT:
                        raise CheckError(f"http://{host}: something else answered (a proxy?)")
        except OSError as error:
            unknown = isinstance(getattr(error, "reason", None), socket.gaierror)
            cause = "has no address: /etc/hosts is missing" if unknown else "no_proxy must name 127.0.0.1 and localhost"
            raise CheckError(f"a server of this machine cannot be reached: http://{host}: {error} ({cause})") from None
        finally:
            server.shutdown()
    return {"summary": "127.0.0.1 and localhost answer", "no_proxy": os.environ.get("no_proxy", "")}


class _Silent(http.server.BaseHTTPRequestHandler):
    TEXT = b"orbit smoke\n"

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.TEXT)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the parent's name
        """Say nothing."""


def check_memory_handles(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Whether one process may take a file descriptor from a sibling (pidfd_getfd), as CUDA IPC of memory pools does.

    Security profiles of batch systems and Yama forbid it; then adapters must not go by ``cuda_ipc``, which is what is
    demanded here.
    """
    del parameters, context
    transport = os.environ.get("ORBIT_PEFT_ADAPTER_TRANSPORT", "")
    error = _take_from_sibling()
    if error and transport != "cpu_gather":
        raise CheckError(
            f"pidfd_getfd: {os.strerror(error)}: GPU memory cannot be handed to another process here "
            "(set ORBIT_PEFT_ADAPTER_TRANSPORT=cpu_gather, or give the container CAP_SYS_PTRACE)"
        )
    allowed = f"denied ({os.strerror(error)}), adapters go by cpu_gather" if error else "allowed"
    return {"summary": f"pidfd_getfd: {allowed}", "pidfd_getfd": not error}


def _take_from_sibling() -> int:
    """The error number of taking a descriptor from a process that is no child of the taker; 0 when it works."""
    if platform.machine() not in ("x86_64", "aarch64"):
        raise CheckError(f"no system call numbers for {platform.machine()}")
    done = run([sys.executable, "-c", TAKER], doing="taking a descriptor from another process", timeout_s=30)
    return int(done.stdout)


def check_interfaces(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """The network as NCCL will see it: an interface that was named is there, and RDMA is whole or absent.

    ``rdma``: true where a job without it shall fail; otherwise it is only told.
    """
    del context
    names = sorted(name for _, name in socket.if_nameindex())
    adapters = sorted(os.listdir(INFINIBAND)) if INFINIBAND.is_dir() else []
    problems = list(interface_faults(names, os.environ.get("NCCL_SOCKET_IFNAME", "")))
    outside = bool(adapters) and not VERBS.is_dir()
    if parameters.get("rdma") and (outside or not adapters):
        problems.append(f"no RDMA in this container (host: {', '.join(adapters) or 'none'}): pass /dev/infiniband in")
    if problems:
        raise CheckError("; ".join(problems))
    rdma = "of the host, not in this container" if outside else ", ".join(adapters) or "none"
    return {"summary": f"interfaces {', '.join(names)}; RDMA: {rdma}", "interfaces": names, "rdma": adapters}


def interface_faults(names: Sequence[str], wanted: str) -> Iterator[str]:
    """What is wrong with NCCL_SOCKET_IFNAME (prefixes, ``=`` for whole names, ``^`` for those to leave out)."""
    left_out, exact = wanted.startswith("^"), wanted.startswith("=")
    for item in filter(None, wanted.lstrip("^=").split(",")):
        hits = [name for name in names if (name == item if exact else name.startswith(item))]
        if not hits and not left_out:
            yield f"NCCL_SOCKET_IFNAME={wanted}: no interface {item} here, there are {', '.join(names)}"


def check_visible_devices(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """The driver sees as many devices as the batch system assigned (CUDA_VISIBLE_DEVICES), and each is a target."""
    del parameters
    count = device_count()
    assigned = [item for item in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if item]
    if assigned and len(assigned) != count:
        raise CheckError(
            f"CUDA_VISIBLE_DEVICES={','.join(assigned)} names {len(assigned)} devices, the driver sees {count}: "
            "one is dead, or not in this container"
        )
    seen = [describe(index) for index in range(count)]
    names = [f"{item['device']} ({target_of(item['capability'], context).name})" for item in seen]
    return {"summary": f"{count} devices: {', '.join(sorted(set(names)))}", "devices": names}
