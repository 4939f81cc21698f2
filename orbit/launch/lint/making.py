"""How a rule says what it found: one shape of subject for all of them, and words for places."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.amounts import format_bytes
from orbit.core.findings import Finding, Severity
from orbit.launch.lint.amounts import docker_bytes, kubernetes_amount
from orbit.launch.lint.facts import Container, Manifest, Pod, Workload
from orbit.launch.lint.known import Known, reference

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE


def finding_at(  # noqa: PLR0917 - what, where and what to do, always in this order
    rule: str,
    severity: Severity,
    manifest: Manifest,
    line: int,
    who: str,
    message: str,
    fix: str,
    **evidence: str,
) -> Finding:
    """A finding about line ``line`` of a manifest; ``who`` names the workload and the container."""
    place = f"{manifest.file}:{line}" if line else manifest.file
    return Finding(
        rule=rule,
        severity=severity,
        subject=f"{place} {who}".rstrip(),
        message=message,
        evidence={name.replace("_", " "): value for name, value in evidence.items() if value},
        fix=fix,
    )


def who(workload: Workload, pod: Pod | None = None, container: Container | None = None) -> str:
    """``RayJob/train head/ray-head``; what has one pod and one container is named once."""
    name = f"{workload.kind}/{workload.name}"
    if container is None or workload.kind.endswith((" run", "service", "submit")):
        return name if pod is None or container is not None else f"{name} {pod.name}"
    return f"{name} {pod.name}/{container.name}" if pod else f"{name} {container.name}"


def working(manifest: Manifest) -> Iterator[tuple[Workload, Pod, Container]]:
    """Containers that do the work: no init containers, no sidecars without a GPU."""
    for workload, pod, container in manifest.seats():
        if container.role != "init" and (container.role != "sidecar" or container.gpus):
            yield workload, pod, container


def memory_limit(manifest: Manifest, container: Container, which: str = "limits") -> float | None:
    """Bytes of memory that a container is limited to (or asks for); None where nothing is said."""
    word = (container.limits if which == "limits" else container.requests).get("memory")
    if word is None:
        return None
    return kubernetes_amount(word.text) if manifest.form == "kubernetes" else docker_bytes(word.text)


def size(count: float) -> str:
    """Bytes for people: binary units where they come out even, as manifests have them."""
    for unit, power in (("TiB", 4), ("GiB", 3), ("MiB", 2)):
        if count >= 1024**power and count * 10 % 1024**power == 0:
            return f"{count / 1024**power:g} {unit}"
    return format_bytes(int(count))


def is_own(known: Known, text: str) -> bool:
    """Whether an image is one that ``known`` is about, or called as Orbit's are."""
    found = reference(text)
    if known.image:
        return found.digest == known.image
    return known.sure or found.is_own
