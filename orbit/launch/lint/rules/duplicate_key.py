"""duplicate-key: no map has a key twice."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.facts import Manifest
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import ERROR, finding_at

ID = "duplicate-key"
TITLE = "no map has a key twice"


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """Kubectl and compose refuse it; what reads it all the same takes one of the two, and not all take the same."""
    for flaw in manifest.flaws:
        if flaw.rule == ID:
            message = f"the key {flaw.what!r} stands twice in one map: which of the two counts depends on who reads it"
            yield finding_at(ID, ERROR, manifest, flaw.line, "", message, "remove one of the two")
