"""huge-pages: nothing asks for huge pages."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.facts import Manifest, Word
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import WARNING, finding_at, who

ID = "huge-pages"
TITLE = "no huge pages are asked for"
MESSAGE = "asks for huge pages: only nodes that set some aside can run it, and NCCL, Ray and the engines use none"
FIX = "remove it (transparent huge pages need no request)"


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """Resources and volumes."""
    for workload, pod, container in manifest.seats():
        for key, word in (container.requests | container.limits).items():
            if key.startswith("hugepages-") and word.text not in ("0", ""):
                found = Word(key, word.line)
                yield finding_at(
                    ID, WARNING, manifest, found.line, who(workload, pod, container), MESSAGE, FIX, asked=key
                )
                break
    for workload in manifest.workloads:
        for pod in workload.pods:
            for volume in pod.volumes.values():
                if volume.medium.startswith("HugePages"):
                    name = f"{who(workload, pod)}/{volume.name}"
                    yield finding_at(ID, WARNING, manifest, volume.line, name, MESSAGE, FIX, asked=volume.medium)
