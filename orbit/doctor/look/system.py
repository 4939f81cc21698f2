"""Processes, ports, GPUs and limits, as the kernel's files show them below a root folder."""

from __future__ import annotations

import errno
import functools
import os
import re
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from orbit.core.proc import run
from orbit.doctor.facts import Devices, Process, RayAddress
from orbit.errors import CommandFailed, MissingError
from orbit.launch.preflight.aside import LateError, aside
from orbit.launch.preflight.below import field, names, text

TICKS = os.sysconf("SC_CLK_TCK")
LISTEN = "0A"
"""TCP_LISTEN in /proc/net/tcp."""
NVIDIA = "0x10de"
DISPLAY = re.compile(r"^0x03(?:00|02)")
NODE = re.compile(r"^nvidia\d+$")
LIBRARY_FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/local/nvidia/lib64")
MANAGEMENT = re.compile(r"^libnvidia-ml\.so\.(\d{3}\.[\d.]+)$")
ANSWER_S = 1.0
WATCH_S = 1.0
DOCKER_S = 8.0
CURRENT = "ray/ray_current_cluster"
"""Where Ray notes the cluster that was started last (``ray._private.utils``)."""


def read_processes(root: Path, uid: int, watch_s: float = WATCH_S) -> tuple[Process, ...]:
    """Processes of this user. Names are the kernel's, cut to 15 characters, or what the process calls itself.

    Those in uninterruptible sleep are watched for ``watch_s`` seconds: one that is run in between does not hang.
    """
    found = _read_processes(root, uid)
    waiting = {one.pid: _switches(root, one.pid) for one in found if one.state == "D"}
    if not waiting:
        return found
    time.sleep(watch_s)
    still = {
        pid
        for pid, switches in waiting.items()
        if switches and switches == _switches(root, pid) and _state(root, pid) == "D"
    }
    return tuple(msgspec.structs.replace(one, waits_s=watch_s) if one.pid in still else one for one in found)


def _switches(root: Path, pid: int) -> tuple[str, str]:
    status = text(root, f"proc/{pid}/status")
    return field(status, "voluntary_ctxt_switches"), field(status, "nonvoluntary_ctxt_switches")


def _state(root: Path, pid: int) -> str:
    return (text(root, f"proc/{pid}/stat").rpartition(")")[2].split() or [""])[0]


def _read_processes(root: Path, uid: int) -> tuple[Process, ...]:
    uptime = float((text(root, "proc/uptime").split() or ["0"])[0])
    found = []
    for name in names(root, "proc"):
        if not name.isdecimal():
            continue
        try:
            if os.stat(root / "proc" / name).st_uid != uid:
                continue
        except OSError:
            continue
        before, _, after = text(root, f"proc/{name}/stat").rpartition(")")
        words = after.split()
        if len(words) < 20:
            continue
        age = uptime - int(words[19]) / TICKS
        command = text(root, f"proc/{name}/cmdline").split("\0")[0]
        title = command.split()[0] if command.startswith(("ray::", "sglang::")) else before.partition("(")[2]
        found.append(Process(pid=int(name), parent=int(words[1]), state=words[0], name=title, age_s=max(0, int(age))))
    return tuple(found)


def read_listening(root: Path) -> tuple[int, ...]:
    """TCP ports somebody listens on in this network namespace."""
    ports = set()
    for name in ("tcp", "tcp6"):
        for line in text(root, f"proc/net/{name}").splitlines()[1:]:
            words = line.split()
            if len(words) > 3 and words[3] == LISTEN:
                ports.add(int(words[1].rpartition(":")[2], 16))
    return tuple(sorted(ports))


def read_devices(root: Path) -> Devices:
    """GPUs on the bus, in the driver, and as device nodes."""
    bus = "sys/bus/pci/devices"
    on_bus = sum(
        text(root, f"{bus}/{name}/vendor").strip() == NVIDIA
        and DISPLAY.match(text(root, f"{bus}/{name}/class")) is not None
        for name in names(root, bus)
    )
    nodes = names(root, "dev")
    libraries = {
        match[1] for folder in LIBRARY_FOLDERS for name in names(root, folder) if (match := MANAGEMENT.match(name))
    }
    return Devices(
        on_bus=on_bus,
        in_driver=len(names(root, "proc/driver/nvidia/gpus")),
        nodes=sum(NODE.match(name) is not None for name in nodes),
        control="nvidiactl" in nodes or "dxg" in nodes,
        module=text(root, "sys/module/nvidia/version").strip(),
        libraries=tuple(sorted(libraries)),
    )


def read_oom_kills(root: Path) -> int:
    """How many processes of this control group the kernel has killed for memory (cgroup v2 and v1)."""
    group = ""
    for line in text(root, "proc/self/cgroup").splitlines():
        _, kinds, path = line.split(":", 2) if line.count(":") >= 2 else ("", "?", "")
        if kinds == "":
            group = path
    for file in (f"sys/fs/cgroup{group}/memory.events", "sys/fs/cgroup/memory.events"):
        counts = dict(line.split(" ", 1) for line in text(root, file).splitlines() if " " in line)
        if counts.get("oom_kill", "").isdecimal():
            return int(counts["oom_kill"])
    control = dict(
        line.split(" ", 1) for line in text(root, "sys/fs/cgroup/memory/memory.oom_control").splitlines() if " " in line
    )
    return int(control["oom_kill"]) if control.get("oom_kill", "").isdecimal() else 0


def read_first_process(root: Path) -> tuple[str, ...]:
    """Command line of process 1 in a container; nothing elsewhere."""
    inside = (root / ".dockerenv").exists() or (root / "run/.containerenv").exists()
    if not inside and not text(root, "proc/1/environ").count("KUBERNETES_SERVICE_HOST"):
        return ()
    return tuple(word for word in text(root, "proc/1/cmdline").split("\0") if word)


def read_ray(root: Path, env: Mapping[str, str]) -> tuple[RayAddress, ...]:
    """Clusters that Ray would join without being told one, and whether anybody answers there."""
    found = []
    for source, address in _addresses(root, env):
        host, _, port = address.removeprefix("ray://").rpartition(":")
        if host and port.isdecimal():
            answer = aside(functools.partial(_knock, host.strip("[]"), int(port)), "doctor")
            try:
                said = answer.value(ANSWER_S)
            except LateError:
                said = "late"
            found.append(RayAddress(source=source, address=address, answer=said))
    return tuple(found)


def _addresses(root: Path, env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if env.get("RAY_ADDRESS"):
        yield "RAY_ADDRESS", env["RAY_ADDRESS"]
    folder = (env.get("RAY_TMPDIR") or "/tmp").lstrip("/")  # noqa: S108 - Ray's own default
    noted = text(root, f"{folder}/{CURRENT}").strip()
    if noted:
        yield f"/{folder}/{CURRENT}", noted


def _knock(host: str, port: int) -> str:
    try:
        with socket.create_connection((host, port), timeout=ANSWER_S):
            return "open"
    except socket.gaierror:
        return "unknown name"
    except TimeoutError:
        return "late"
    except OSError as error:
        return "refused" if error.errno == errno.ECONNREFUSED else str(error.strerror or error)


def ask_docker(env: Mapping[str, str]) -> str:
    """What docker's client says when its engine does not answer; empty when it does.

    Raises :class:`MissingError` when there is no client.
    """
    client = shutil.which("docker", path=env.get("PATH"))
    if client is None:
        raise MissingError("there is no docker client here")
    try:
        argv = [client, "version", "--format", "{{.Server.Version}}"]
        done = run(argv, doing="asking docker", timeout_s=DOCKER_S, check=False)
    except CommandFailed as late:
        return late.what
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return "" if done.returncode == 0 else (lines[-1] if lines else f"docker version ended with {done.returncode}")
