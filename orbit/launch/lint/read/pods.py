"""A pod template of Kubernetes as a :class:`Pod`."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.launch.lint.amounts import kubernetes_amount, whole
from orbit.launch.lint.facts import DEFAULT_SHM_BYTES, SOME, Container, Env, Mount, Pod, Port, Role, Shm, Volume, Word
from orbit.launch.lint.read.tree import NOTHING, Node

SHM = "/dev/shm"  # noqa: S108 - a mount point to look for
GPU = ("nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-")
"""Extended resources that are GPUs, by their beginnings."""


def pod_of(
    name: str,
    template: Node,
    *,
    role: Role,
    count: int,
    params: Node = NOTHING,
    operator: bool = False,
    restart: Node = NOTHING,
) -> Pod:
    """The pod that ``template`` describes; ``operator``: KubeRay gives its first container a /dev/shm."""
    spec = template.at("spec")
    volumes = {volume.name: volume for volume in _volumes(spec)}
    containers = [
        container_of(
            item,
            spec,
            volumes,
            role=role if place == 0 else "sidecar",
            operator=operator and place == 0,
        )
        for place, item in enumerate(spec.at("containers").items)
    ]
    containers += [
        container_of(item, spec, volumes, role="init", operator=False) for item in spec.at("initContainers").items
    ]
    return Pod(
        name=name,
        line=template.line,
        role=role,
        count=count,
        containers=tuple(containers),
        volumes=volumes,
        host_network=spec.word("hostNetwork") if spec.is_true("hostNetwork") else None,
        host_ipc=spec.word("hostIPC") if spec.is_true("hostIPC") else None,
        dns_policy=spec.says("dnsPolicy"),
        apart=_apart(spec),
        restart=restart.word("restartPolicy") or spec.word("restartPolicy"),
        grace=spec.word("terminationGracePeriodSeconds"),
        params={key: Word(item.text, item.line) for key, item in params.entries.items() if item.text is not None},
    )


def _volumes(spec: Node) -> Iterator[Volume]:
    for item in spec.at("volumes").items:
        kind = next((key for key in item.entries if key != "name"), "emptyDir")
        source = item.at(kind)
        path = source.says("path") or source.says("server") or source.says("driver") or source.says("claimName")
        medium, size = source.says("medium"), source.says("sizeLimit")
        yield Volume(item.says("name"), kind, path, medium, size, source.line or item.line)


def container_of(item: Node, spec: Node, volumes: dict[str, Volume], *, role: Role, operator: bool) -> Container:
    """One entry of ``containers``."""
    security, outer = item.at("securityContext"), spec.at("securityContext")
    resources = item.at("resources")
    limits, requests = _amounts(resources.at("limits")), _amounts(resources.at("requests"))
    mounts = tuple(
        Mount(
            path=mount.says("mountPath"),
            volume=volumes.get(mount.says("name")),
            name=mount.says("name"),
            read_only=mount.is_true("readOnly"),
            line=mount.line,
        )
        for mount in item.at("volumeMounts").items
    )
    gpus, gpu_line = _gpus(limits, requests)
    uid = security.says("runAsUser") or outer.says("runAsUser")
    options = {
        name: word
        for name, word in (
            ("readOnlyRootFilesystem", security.word("readOnlyRootFilesystem")),
            ("rdma", next((word for key, word in (limits | requests).items() if "rdma" in key), None)),
            ("envFrom", Word("", item.at("envFrom").line) if item.at("envFrom") else None),
            ("workingDir", item.word("workingDir")),
        )
        if word is not None
    }
    return Container(
        name=item.says("name") or "unnamed",
        role=role,
        line=item.line,
        image=item.word("image"),
        command=item.at("command").words(),
        args=item.at("args").words(),
        env=tuple(_env(item.at("env"))),
        requests=requests,
        limits=limits,
        mounts=mounts,
        ports=tuple(_ports(item.at("ports"))),
        pull_policy=item.word("imagePullPolicy"),
        uid=whole(uid) if uid else None,
        non_root=security.is_true("runAsNonRoot") or outer.is_true("runAsNonRoot"),
        privileged=security.word("privileged") if security.is_true("privileged") else None,
        added=security.at("capabilities", "add").words(),
        shm=_shm(mounts, spec, item.line, operator),
        gpus=gpus,
        gpu_line=gpu_line,
        options=options,
    )


def _amounts(node: Node) -> dict[str, Word]:
    return {key: Word(item.text, item.line) for key, item in node.entries.items() if item.text is not None}


def is_gpu(resource: str) -> bool:
    """Whether an extended resource is a GPU."""
    return resource.startswith(GPU)


def _gpus(limits: dict[str, Word], requests: dict[str, Word]) -> tuple[int, int]:
    found = [word for key, word in (limits or requests).items() if is_gpu(key)]
    found = found or [word for key, word in requests.items() if is_gpu(key)]
    counts = [whole(word.text) for word in found]
    number = SOME if None in counts else sum(count or 0 for count in counts)  # ${GPUS}: filled in later
    return number, found[0].line if found else 0


def _env(node: Node) -> Iterator[Env]:
    for item in node.items:
        value = item.at("value")
        name = item.says("name")
        if item.at("valueFrom") or not name:
            yield Env(name, None, item.line)
        else:
            yield Env(name, value.text or "", value.line or item.line, not value or value.is_text)


def _ports(node: Node) -> Iterator[Port]:
    for item in node.items:
        number = whole(item.says("containerPort"))
        if number is not None:
            host = whole(item.says("hostPort") or "0") or 0
            yield Port(number, host, item.says("name"), item.says("protocol") or "TCP", item.line)


def _shm(mounts: tuple[Mount, ...], spec: Node, line: int, operator: bool) -> Shm:
    mount = next((mount for mount in mounts if mount.path.rstrip("/") == SHM), None)
    if mount is None:
        if spec.is_true("hostIPC"):
            return Shm("host", 0, line)
        return Shm("operator" if operator else "default", DEFAULT_SHM_BYTES, line)
    volume = mount.volume
    if volume is None or volume.kind not in ("emptyDir", "hostPath"):
        return Shm("other", 0, mount.line)
    if volume.kind == "hostPath":
        return Shm("host", 0, volume.line)
    if volume.medium != "Memory":
        return Shm("disk", 0, volume.line)
    size = kubernetes_amount(volume.size) if volume.size else None
    return Shm("sized", int(size), volume.line) if size is not None else Shm("memory", 0, volume.line)


def _apart(spec: Node) -> bool:
    """Whether a rule that the scheduler must obey keeps two such pods off one node."""
    terms = spec.at("affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution").items
    if any(term.says("topologyKey") == "kubernetes.io/hostname" for term in terms):
        return True
    return any(
        item.says("topologyKey") == "kubernetes.io/hostname"
        and item.says("whenUnsatisfiable") in ("", "DoNotSchedule")
        and item.says("maxSkew") in ("", "1")
        for item in spec.at("topologySpreadConstraints").items
    )
