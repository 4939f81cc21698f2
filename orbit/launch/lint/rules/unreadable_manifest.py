"""unreadable-manifest: a file that is given as a manifest can be read as one."""

from __future__ import annotations

from collections.abc import Iterator

from orbit.core.findings import Finding
from orbit.launch.lint.facts import Manifest
from orbit.launch.lint.known import Known
from orbit.launch.lint.making import ERROR, finding_at

ID = "unreadable-manifest"
TITLE = "every file that is given can be read as a manifest"


def check(manifest: Manifest, _known: Known) -> Iterator[Finding]:
    """What the reader could not read."""
    for flaw in manifest.flaws:
        if flaw.rule == ID:
            fix = "correct the place named; the scheduler would refuse it, or read something else than is meant"
            yield finding_at(ID, ERROR, manifest, flaw.line, "", flaw.what, fix)
