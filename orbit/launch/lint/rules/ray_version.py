"""ray-version: ``rayVersion`` is the version of Ray in the image."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding, Severity
from orbit.launch.lint.facts import Container, Manifest, Pod, Workload
from orbit.launch.lint.known import Known, reference
from orbit.launch.lint.making import ERROR, NOTE, finding_at, is_own, who

ID = "ray-version"
TITLE = "rayVersion is the version of Ray in the image"


def check(manifest: Manifest, known: Known) -> Iterator[Finding]:
    """One finding per cluster and version that differs."""
    for workload in manifest.workloads:
        if workload.is_ray and workload.pods:
            yield from _cluster(manifest, workload, known)


def _cluster(manifest: Manifest, workload: Workload, known: Known) -> Iterator[Finding]:
    stated = workload.settings.get("rayVersion")
    if stated is None:
        if any(pod.role == "head" for pod in workload.pods):
            message = "rayVersion is not said: KubeRay then guesses what the image can do"
            yield finding_at(ID, NOTE, manifest, workload.line, who(workload), message, "add rayVersion")
        return
    told: set[str] = set()
    for pod, container, version, severity, origin in _versions(workload, known):
        if version == stated.text.strip().removeprefix("v") or version in told:
            continue
        told.add(version)
        verb = "has" if severity is ERROR else "may have"
        message = f"rayVersion is {stated.text}, the image {verb} Ray {version}: KubeRay starts it as the other version"
        yield finding_at(
            ID, severity, manifest, stated.line, who(workload, pod, container), message,
            f'write rayVersion: "{version}", or name an image with Ray {stated.text}', known_from=origin,
        )  # fmt: skip


def _versions(workload: Workload, known: Known) -> Iterator[tuple[Pod, Container, str, Severity, str]]:
    """The version of Ray in each image of a cluster, as far as it can be told, and how."""
    for pod in workload.pods:
        for container in pod.containers[:1]:
            if container.image is None:
                continue
            image = reference(container.image.text)
            if known.ray and known.sure and known.image in ("", image.digest):
                yield pod, container, known.ray, ERROR, "what was said of the image"
            elif image.ray:
                yield pod, container, image.ray, ERROR, f"the tag {image.tag}"
            elif known.ray and is_own(known, container.image.text):
                yield pod, container, known.ray, ERROR, "the lock that Orbit's images are made of"
            elif known.ray and image.digest:
                yield pod, container, known.ray, NOTE, "the lock, if the image was made of it"
