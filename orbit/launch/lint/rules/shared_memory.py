"""shared-memory: /dev/shm is there, large enough, and fits the memory it is counted against."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.amounts import kubernetes_amount
from orbit.launch.lint.facts import DEFAULT_SHM_BYTES, SOME, Container, Manifest, Pod, Word, Workload
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import ERROR, WARNING, finding_at, memory_limit, size, who, working
from orbit.launch.lint.programs import programs, trains

ID = "shared-memory"
TITLE = "shared memory is there, large enough for NCCL and Ray, and fits into the memory limit"
SMALL_BYTES = 1 << 30
"""Of /dev/shm for several GPUs: NCCL takes tens of MB for each pair, data loaders and Ray's store much more."""
STORE_SHARE, STORE_CAP_BYTES = 0.3, 10**10
"""Ray's object store by default: 30 % of memory, and below 10 GB it is not cut to what /dev/shm has (Ray 2.55,
``ray._private.utils.resolve_object_store_memory`` and ``determine_plasma_store_config``)."""


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """What is wrong with /dev/shm of each container that works."""
    for workload, pod, container in working(manifest):
        if manifest.form == "slurm" or container.role == "submitter":
            continue
        found = list(_missing(manifest, workload, pod, container))
        yield from found or _sized(manifest, workload, pod, container)
        yield from _store(manifest, workload, pod, container)


def _fix(manifest: Manifest) -> str:
    if manifest.form == "kubernetes":
        return "mount a volume emptyDir: {medium: Memory, sizeLimit: 16Gi} at /dev/shm, within the memory limit"
    if manifest.form == "compose":
        return "add shm_size: 16gb (or ipc: host)"
    if manifest.form == "htcondor":
        return "use the container universe, or let the pool's DOCKER_EXTRA_ARGUMENTS say --shm-size"
    return "add --shm-size=16g (or --ipc=host)"


def _missing(manifest: Manifest, workload: Workload, pod: Pod, container: Container) -> Iterator[Finding]:
    shm, name = container.shm, who(workload, pod, container)
    many = container.gpus >= 2
    if shm.kind == "default" or (shm.kind == "sized" and shm.size <= DEFAULT_SHM_BYTES):
        if not many and manifest.form == "htcondor":
            return
        if not (many or container.gpus == SOME or (container.gpus and trains(container)) or _starts_ray(container)):
            return
        severity = ERROR if many and manifest.form != "htcondor" else WARNING
        message = "shared memory is the 64 MiB of a container by default: NCCL between GPUs and Ray's store fail"
        yield finding_at(ID, severity, manifest, shm.line, name, message, _fix(manifest), gpus=_count(container))
    elif shm.kind == "disk":
        message = "the volume at /dev/shm is on disk, not in memory: add medium: Memory"
        yield finding_at(ID, WARNING, manifest, shm.line, name, message, _fix(manifest))
    elif shm.kind == "other" and manifest.form == "kubernetes":
        message = "the volume at /dev/shm is not an emptyDir in memory"
        yield finding_at(ID, WARNING, manifest, shm.line, name, message, _fix(manifest))


def _count(container: Container) -> str:
    return "" if not container.gpus else "some" if container.gpus == SOME else str(container.gpus)


def _sized(manifest: Manifest, workload: Workload, pod: Pod, container: Container) -> Iterator[Finding]:
    shm, name = container.shm, who(workload, pod, container)
    limit = memory_limit(manifest, container)
    if shm.kind == "sized" and limit is not None and shm.size > limit:
        message = (
            f"shared memory of {size(shm.size)} exceeds the memory limit of {size(limit)}: filling it ends in OOMKilled"
        )
        fix = "its pages count as the container's memory: make it smaller, or the limit larger"
        yield finding_at(ID, ERROR, manifest, shm.line, name, message, fix)
    elif shm.kind == "sized" and shm.size < SMALL_BYTES and (container.gpus >= 2 or container.gpus == SOME):
        message = f"shared memory of {size(shm.size)} is little for several GPUs: NCCL says 'No space left on device'"
        yield finding_at(ID, WARNING, manifest, shm.line, name, message, _fix(manifest), gpus=_count(container))
    elif shm.kind == "memory" and limit is None and container.gpus:
        message = "the volume at /dev/shm has no sizeLimit, the container no memory limit: it can fill the node"
        fix = "add a sizeLimit, and a memory limit that is larger"
        yield finding_at(ID, WARNING, manifest, shm.line, name, message, fix)


def _store(manifest: Manifest, workload: Workload, pod: Pod, container: Container) -> Iterator[Finding]:
    """Ray's object store against /dev/shm."""
    room, origin = _room(manifest, container)
    if room is None:
        return
    name = who(workload, pod, container)
    asked = _asked(pod, container)
    if asked is not None:
        number = kubernetes_amount(asked.text)
        if number is not None and number > room:
            message = (
                f"Ray's object store of {size(number)} does not fit /dev/shm of {size(room)}: Ray refuses to start"
            )
            fix = "make /dev/shm at least as large as object-store-memory"
            yield finding_at(ID, ERROR, manifest, asked.line, name, message, fix, room=origin)
        return
    limit = memory_limit(manifest, container)
    if not (workload.is_ray or _starts_ray(container)) or limit is None or container.shm.kind != "sized":
        return
    store = min(STORE_SHARE * limit, STORE_CAP_BYTES)
    if DEFAULT_SHM_BYTES < room < store:
        message = (
            f"Ray takes {size(store)} for its object store, /dev/shm has {size(room)}: it moves to /tmp and crawls"
        )
        fix = "make /dev/shm at least 30 % of the memory limit, or say object-store-memory"
        yield finding_at(ID, WARNING, manifest, container.shm.line, name, message, fix)


def _room(manifest: Manifest, container: Container) -> tuple[float | None, str]:
    """Bytes of /dev/shm. The volume that KubeRay adds is as large as the memory request, else the limit."""
    if container.shm.kind in ("sized", "default"):
        return container.shm.size, "the volume at /dev/shm"
    if container.shm.kind == "operator":
        asked = memory_limit(manifest, container, "requests")
        return (memory_limit(manifest, container) if asked is None else asked), "KubeRay sizes it by the memory request"
    return None, ""


def _asked(pod: Pod, container: Container) -> Word | None:
    if "object-store-memory" in pod.params and container.role in ("head", "worker"):
        return pod.params["object-store-memory"]
    for program in programs(container):
        if program.kind == "ray start" and "object-store-memory" in program.flags:
            return program.flags["object-store-memory"]
    return None


def _starts_ray(container: Container) -> bool:
    return any(program.kind == "ray start" for program in programs(container))
