"""host-path: root in a container does not write to the node, and is not given the whole of it."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.facts import Container, Manifest, Mount
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import ERROR, NOTE, WARNING, finding_at, who

ID = "host-path"
TITLE = "root in a container neither writes to the node's folders nor is given all of the node"
SENSITIVE = (
    "/",
    "/etc",
    "/root",
    "/var",
    "/var/run",
    "/run",
    "/boot",
    "/proc",
    "/sys",
    "/usr",
    "/bin",
    "/lib",
    "/lib64",
)
SOCKETS = ("docker.sock", "containerd.sock", "crio.sock", "podman.sock")


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """Mounts of the node's folders, and privileged containers."""
    for workload, pod, container in manifest.seats():
        name = who(workload, pod, container)
        for mount in container.mounts:
            if mount.volume is not None and mount.volume.kind == "hostPath":
                yield from _mount(manifest, name, container, mount)
        if container.privileged is not None and container.privileged.text != "false":
            what = (
                "sees every GPU of the node, whatever it asked for" if container.gpus else "may do anything on the node"
            )
            message = f"is privileged: it {what}"
            fix = "remove it; capabilities (IPC_LOCK, SYS_PTRACE) and devices can be given one by one"
            yield finding_at(ID, WARNING, manifest, container.privileged.line, name, message, fix)


def _mount(manifest: Manifest, name: str, container: Container, mount: Mount) -> Iterator[Finding]:
    path = mount.volume.path if mount.volume else ""
    if path.endswith(SOCKETS):
        message = f"{path} is mounted: whoever writes to it is root on the node"
        yield finding_at(ID, WARNING, manifest, mount.line, name, message, "remove it")
    elif mount.read_only or not path.startswith("/"):
        return
    elif (path.rstrip("/") or "/") in SENSITIVE:
        severity = ERROR if container.uid == 0 else WARNING
        message = f"{path} of the node can be written from the container"
        yield finding_at(
            ID, severity, manifest, mount.line, name, message, "mount the one folder that is needed, read-only"
        )
    elif container.uid == 0:
        severity = WARNING if manifest.form == "kubernetes" else NOTE
        message = f"root writes to {path} of the node: its files belong to root, and other users' can be replaced"
        yield finding_at(ID, severity, manifest, mount.line, name, message, "run as the user whose files they are")
