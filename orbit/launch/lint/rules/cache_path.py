"""cache-path: what is compiled at run time is kept on a disk of the node."""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Iterator

from orbit.audit.models.settings import load_settings
from orbit.core.findings import Finding, Severity
from orbit.env.activate import load_contract
from orbit.launch.lint.facts import Container, Env, Manifest, Mount, Volume
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import ERROR, WARNING, finding_at, who

ID = "cache-path"
TITLE = "caches of compiled code are on a disk of the node that can be written"
FIX = "leave it to the image's entry point, or name a folder on a disk of the node (an emptyDir, the scratch disk)"
NETWORK_KINDS = ("nfs", "cephfs", "glusterfs", "azureFile", "rbd", "lustre")
LOOKS = "is on what looks like a network file system: many ranks end in stale file handles"
HOMES = ("/root", "/home", "~", "$HOME", "${HOME}")
FURTHER = ("VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


@functools.cache
def cache_variables() -> frozenset[str]:
    """The variables of the activation contract that place caches of code, and the state folder they lie in."""
    contract = {variable.name for variable in load_contract().variables if variable.value.startswith("{cache}")}
    return frozenset(contract | {"ORBIT_STATE"} | set(FURTHER))


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """One finding per container and cause."""
    for workload, pod, container in manifest.seats():
        found: dict[tuple[Severity, str], list[Env]] = {}
        for env in container.env:
            if env.name in cache_variables() and env.value and (cause := _cause(container, env.value)):
                found.setdefault(cause, []).append(env)
        for (severity, message), several in found.items():
            names = ", ".join(dict.fromkeys(env.name for env in several))
            shown = several[0].value or ""
            name = who(workload, pod, container)
            yield finding_at(ID, severity, manifest, several[0].line, name, f"{names}: {message}", FIX, value=shown)


def _cause(container: Container, path: str) -> tuple[Severity, str] | None:
    mount = mount_of(container, path)
    if mount is not None and mount.volume is not None:
        return _mounted(mount, mount.volume)
    if _is_home(path):
        return WARNING, "is in a home folder: shared by all nodes, or not writable in a container"
    if _is_network(path):
        return WARNING, LOOKS
    locked = container.options.get("readOnlyRootFilesystem")
    if mount is None and path.startswith("/") and not _is_temporary(path) and locked and locked.text == "true":
        return ERROR, "is in the image, whose file system is read-only here"
    return None


def _mounted(mount: Mount, volume: Volume) -> tuple[Severity, str] | None:
    if mount.read_only:
        return ERROR, "is in a folder that is mounted read-only"
    if volume.kind in NETWORK_KINDS or (volume.kind == "csi" and _is_network_driver(volume.path)):
        return WARNING, "is on a network file system: many ranks that compile there end in stale file handles"
    if volume.kind == "hostPath" and _is_home(volume.path):
        return WARNING, "is in a home folder of the node: shared by all jobs and images of the user, often by all nodes"
    if volume.kind in ("hostPath", "volume") and _is_network(volume.path):
        return WARNING, LOOKS
    return None


def mount_of(container: Container, path: str) -> Mount | None:
    """The mount that holds ``path``: the longest that is above it."""
    path = posixpath.normpath(path)
    above = [mount for mount in container.mounts if _is_below(path, mount.path)]
    return max(above, key=lambda mount: len(mount.path), default=None)


def _is_below(path: str, folder: str) -> bool:
    folder = folder.rstrip("/")
    return path == folder or path.startswith(f"{folder}/")


def _is_home(path: str) -> bool:
    return any(_is_below(path, home) for home in HOMES)


def _is_network(path: str) -> bool:
    return any(
        path.startswith(start) if start.endswith("/") else _is_below(path, start) for start in load_settings().network
    )


def _is_network_driver(driver: str) -> bool:
    return any(
        word in driver for word in ("nfs", "efs", "fsx", "lustre", "filestore", "azurefile", "ceph.com.cephfs", "weka")
    )


def _is_temporary(path: str) -> bool:
    return any(_is_below(path, folder) for folder in ("/tmp", "/var/tmp", "/dev/shm"))  # noqa: S108
