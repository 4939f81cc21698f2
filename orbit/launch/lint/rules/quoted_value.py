"""quoted-value: what Kubernetes wants as a string is one."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.facts import Manifest
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import ERROR, finding_at, who

ID = "quoted-value"
TITLE = "values of variables are strings"


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """Variables with a bare number or truth value: the API server refuses the whole object."""
    if manifest.form != "kubernetes":
        return
    for workload, pod, container in manifest.seats():
        for env in container.env:
            if not env.is_text:
                message = (
                    f"{env.name} has a bare number or truth value: Kubernetes wants a string and refuses the object"
                )
                yield finding_at(
                    ID, ERROR, manifest, env.line, who(workload, pod, container), message, "put it in quotes"
                )
