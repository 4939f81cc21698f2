"""pull-policy: images are pulled when they must be, and not when they need not."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.facts import Manifest
from orbit.launch.lint.known import Known, reference
from orbit.launch.lint.making import NOTE, WARNING, finding_at, who

ID = "pull-policy"
TITLE = "an image by digest is pulled once, one by a moving tag is not taken from what a node happens to have"


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """Containers that say how their image is pulled, or whose image has a moving tag."""
    for workload, pod, container in manifest.seats():
        if container.image is None or container.pull_policy is None:
            continue
        image = reference(container.image.text)
        policy, line = container.pull_policy.text.lower(), container.pull_policy.line
        name = who(workload, pod, container)
        if image.digest and policy == "always":
            message = "a digest is always the same: asking the registry before every start makes each depend on it"
            yield finding_at(ID, NOTE, manifest, line, name, message, "write IfNotPresent")
        elif not image.digest and image.tag in ("", "latest") and policy in ("ifnotpresent", "missing", "never"):
            message = "a node runs whatever it has under this moving tag: two nodes run two images"
            yield finding_at(ID, WARNING, manifest, line, name, message, "name the image by digest")
        elif not image.digest and policy == "always" and pod.count > 1:
            message = "every pod asks anew what the tag is: pods that start before and after it moves run two images"
            yield finding_at(ID, NOTE, manifest, line, name, message, "name the image by digest, with IfNotPresent")
