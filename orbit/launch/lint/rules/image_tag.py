"""image-tag: images are named by digest."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.facts import Container, Manifest, Word
from orbit.launch.lint.known import DIGEST, Known, is_file, reference
from orbit.launch.lint.making import ERROR, NOTE, WARNING, finding_at, who

ID = "image-tag"
TITLE = "images are named by digest, so that every node and every restart runs the same one"
FIX = "write repository@sha256:...; `skopeo inspect` or `docker buildx imagetools inspect` tell the digest of a tag"


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """One finding per image and role."""
    seen: set[tuple[str, bool]] = set()
    for workload, pod, container in manifest.seats():
        word = container.image
        beside = container.role in ("init", "sidecar")
        if word is None or not _is_judged(container, word) or (word.text, beside) in seen:
            continue
        seen.add((word.text, beside))
        image = reference(word.text)
        name = who(workload, pod, container)
        if "@" in word.text and not DIGEST.match(image.digest):
            message = "is no valid digest: sha256: and 64 hexadecimal digits are needed, nothing can be pulled"
            yield finding_at(ID, ERROR, manifest, word.line, name, message, FIX, image=word.text)
        elif not image.digest:
            what = "a tag that moves" if image.tag in ("", "latest", "nightly", "main", "dev") else "a tag"
            message = f"the image is named by {what}: a node that pulls later, or a restart, may run another one"
            severity = NOTE if beside else WARNING
            yield finding_at(ID, severity, manifest, word.line, name, message, FIX, image=word.text)


def _is_judged(container: Container, word: Word) -> bool:
    """A file of the node, what is built on the spot and what only the shell knows have no digest here."""
    return bool(word.text) and not is_file(word.text) and "build" not in container.options and "$" not in word.text
