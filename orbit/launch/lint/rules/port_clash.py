"""port-clash: no two things that share an address listen on one port."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.amounts import whole
from orbit.launch.lint.facts import Manifest, Pod, Workload
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import ERROR, NOTE, WARNING, finding_at, who
from orbit.launch.lint.programs import programs

ID = "port-clash"
TITLE = "no two things that share an address listen on one port"
RAY_PORTS = (
    "port", "dashboard-port", "ray-client-server-port", "object-manager-port", "node-manager-port", "gcs-server-port",
    "dashboard-agent-listen-port", "dashboard-agent-grpc-port", "metrics-export-port", "runtime-env-agent-port",
)  # fmt: skip
RANGE = ("min-worker-port", "max-worker-port")


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """Containers of a pod, services of a compose file, ports of Ray, ports of the node."""
    for workload in manifest.workloads:
        for pod in workload.pods:
            yield from _in_pod(manifest, workload, pod)
            yield from _ray(manifest, workload, pod)
            yield from _on_host(manifest, workload, pod)
    if manifest.form == "compose":
        yield from _services(manifest)


def _in_pod(manifest: Manifest, workload: Workload, pod: Pod) -> Iterator[Finding]:
    taken: dict[tuple[int, str], str] = {}
    for container in pod.containers:
        if container.role == "init":
            continue
        for port in container.ports:
            other = taken.setdefault((port.number, port.protocol), container.name)
            if other != container.name:
                message = f"port {port.number} is also that of container {other}, and both share one address"
                yield finding_at(
                    ID,
                    ERROR,
                    manifest,
                    port.line,
                    who(workload, pod, container),
                    message,
                    "give one of them another port",
                )


def _ray(manifest: Manifest, workload: Workload, pod: Pod) -> Iterator[Finding]:
    """Fixed ports of Ray that are equal, or in the range of its workers."""
    sets = [(dict(pod.params), who(workload, pod))]
    for container in pod.containers:
        sets += [(p.flags, who(workload, pod, container)) for p in programs(container) if p.kind == "ray start"]
    for flags, name in sets:
        numbers = {key: (whole(flags[key].text), flags[key].line) for key in (*RAY_PORTS, *RANGE) if key in flags}
        low, high = (numbers.get(key, (None, 0))[0] for key in RANGE)
        taken: dict[int, str] = {}
        for key in RAY_PORTS:
            number, line = numbers.get(key, (None, 0))
            if not number:
                continue
            other = taken.setdefault(number, key)
            if other != key:
                message = f"{key} and {other} of Ray are both {number}"
                yield finding_at(ID, ERROR, manifest, line, name, message, "give one of them another port")
            elif low and high and low <= number <= high:
                message = f"{key} {number} is in the range of Ray's workers, {low} to {high}: one of them takes it"
                yield finding_at(ID, ERROR, manifest, line, name, message, "move the range or the port")


def _on_host(manifest: Manifest, workload: Workload, pod: Pod) -> Iterator[Finding]:
    for container in pod.containers:
        name = who(workload, pod, container)
        if manifest.form == "kubernetes":
            port = next(
                (port for port in container.ports if port.host and pod.count > 1 and not pod.host_network), None
            )
            if port is not None and workload.kind != "DaemonSet":
                message = f"hostPort {port.host} lets one pod of {pod.count} run on each node"
                yield finding_at(ID, NOTE, manifest, port.line, name, message, "use a Service")
        elif pod.host_network is not None and container.ports and manifest.form in ("shell", "compose"):
            message = "ports are published and the host's network is used: publishing does nothing there"
            yield finding_at(ID, WARNING, manifest, container.ports[0].line, name, message, "remove one of the two")


def _services(manifest: Manifest) -> Iterator[Finding]:
    taken: dict[tuple[int, str], str] = {}
    for workload, pod, container in manifest.seats():
        for port in container.ports:
            if not port.host:
                continue
            other = taken.setdefault((port.host, port.protocol), workload.name)
            if other != workload.name or pod.count > 1:
                with_whom = (
                    f"that of service {other}" if other != workload.name else f"that of all {pod.count} replicas"
                )
                message = f"port {port.host} of the host is also {with_whom}"
                yield finding_at(
                    ID,
                    ERROR,
                    manifest,
                    port.line,
                    who(workload, pod, container),
                    message,
                    "give one of them another port",
                )
