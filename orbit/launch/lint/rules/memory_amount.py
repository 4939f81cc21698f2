"""memory-amount: amounts of memory are spelt as their reader understands them."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.amounts import docker_bytes, kubernetes_amount
from orbit.launch.lint.facts import Manifest, Word
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import ERROR, finding_at, who

ID = "memory-amount"
TITLE = "amounts of memory are spelt as their reader understands them"
LEAST_BYTES = 1 << 20
FIX = {
    "kubernetes": "write 64Gi, 512Mi or 64G: no B, no small letters; m is a thousandth",
    "compose": "write 16gb, 16g or 512m",
    "shell": "write 16g or 512m",
}


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """Limits, requests and the sizes of volumes in memory."""
    if manifest.form not in FIX:
        return
    read = kubernetes_amount if manifest.form == "kubernetes" else docker_bytes
    for workload, pod, container in manifest.seats():
        words = [container.limits.get("memory"), container.requests.get("memory"), container.options.get("shm-size")]
        for word in dict.fromkeys(word for word in words if word is not None and "$" not in word.text):
            yield from _judged(manifest, word, read(word.text), who(workload, pod, container))
    for workload in manifest.workloads:
        for pod in workload.pods:
            for volume in pod.volumes.values():
                if manifest.form == "kubernetes" and volume.size:
                    amount = kubernetes_amount(volume.size)
                    yield from _judged(
                        manifest, Word(volume.size, volume.line), amount, f"{who(workload, pod)}/{volume.name}"
                    )


def _judged(manifest: Manifest, word: Word, amount: float | None, name: str) -> Iterator[Finding]:
    fix = FIX[manifest.form or "kubernetes"]
    if amount is None:
        message = f"{word.text!r} is no amount here: it is refused"
        yield finding_at(ID, ERROR, manifest, word.line, name, message, fix)
    elif 0 < amount < LEAST_BYTES:
        message = f"{word.text!r} is {amount:g} bytes: nothing can start with that"
        yield finding_at(ID, ERROR, manifest, word.line, name, message, fix)
