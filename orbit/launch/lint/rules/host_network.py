"""host-network: pods on the node's own network find each other and do not meet on one node."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.facts import Manifest, Pod, Workload
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import ERROR, WARNING, finding_at, who

ID = "host-network"
TITLE = "pods on the host's network resolve names and never meet on one node"


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """Kubernetes: pods with ``hostNetwork``."""
    for workload in manifest.workloads if manifest.form == "kubernetes" else ():
        for pod in workload.pods:
            if pod.host_network is None:
                continue
            if pod.dns_policy not in ("ClusterFirstWithHostNet", "None"):
                severity = ERROR if workload.is_ray or _several(workload) else WARNING
                message = (
                    "hostNetwork without dnsPolicy: ClusterFirstWithHostNet: names of services are not resolved"
                    + (", workers never find the head" if workload.is_ray else "")
                )
                fix = "add dnsPolicy: ClusterFirstWithHostNet"
                yield finding_at(ID, severity, manifest, pod.host_network.line, who(workload, pod), message, fix)
            if _may_meet(workload, pod):
                message = "hostNetwork without a required anti-affinity: a second pod on the node cannot bind its ports"
                fix = "add a required podAntiAffinity with topologyKey kubernetes.io/hostname over the pods of the job"
                yield finding_at(ID, WARNING, manifest, pod.host_network.line, who(workload, pod), message, fix)


def _several(workload: Workload) -> bool:
    return sum(pod.count for pod in workload.pods) > 1


def _may_meet(workload: Workload, pod: Pod) -> bool:
    """Kubernetes keeps pods apart by itself where they name the same ports, and one pod of a DaemonSet per node."""
    if pod.apart or workload.kind == "DaemonSet" or not (_several(workload) or workload.is_ray):
        return False
    return workload.is_ray or not any(container.ports for container in pod.containers)
