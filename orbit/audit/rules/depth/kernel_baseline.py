"""kernel-baseline: a build has every kernel that the build before it had (``--deep --baseline FILE``).

Upgrades of a compiler or of build options lose kernels without a word: a file that no longer compiles for one
architecture, a guard that switches a body off. Compared with what the last good build had, that is seen at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from orbit.audit.deep.baseline import DepthDiff, FileDiff
from orbit.audit.rules.depth.matrix import examples
from orbit.core.findings import Finding, Severity

ID = "kernel-baseline"
TITLE = "a build has every kernel that the build before it had"
FIX = "find what the build lost; when it is meant to be gone, save a new baseline (--save-baseline FILE)"


def compare(diff: DepthDiff) -> Iterator[Finding]:
    """One error per file that lost kernels, one note per file that only changed, one finding for lost files."""
    if diff.files_removed:
        yield _finding(
            "baseline", Severity.ERROR, "files with device code are gone", {"files": " ".join(diff.files_removed)}
        )
    for item in diff.files:
        lost = _lost(item)
        if lost:
            yield _finding(item.file, Severity.ERROR, "has lost kernels that the baseline has", lost)
        else:
            changed = {
                "kernels added": str(len(item.added)) if item.added else "",
                "kernels of another size": str(len(item.resized)) if item.resized else "",
                "code bytes": ", ".join(f"{arch}: {a} -> {b}" for arch, (a, b) in item.code_bytes.items()),
            }
            yield _finding(item.file, Severity.NOTE, "differs from the baseline, and has lost nothing", changed)
    if diff.files_added:
        yield _finding(
            "baseline", Severity.NOTE, "files with device code are new", {"files": " ".join(diff.files_added)}
        )


def _lost(item: FileDiff) -> dict[str, str]:
    """What a file had and has no longer, by kind."""
    found = {"removed": examples(item.removed)} if item.removed else {}
    for arch, kernels in item.archs_removed.items():
        found[f"no longer for {arch}"] = examples(kernels)
    for arch in sorted({change.arch for change in item.stubbed}):
        found[f"do nothing now on {arch}"] = examples([one.kernel for one in item.stubbed if one.arch == arch])
    return found


def _finding(subject: str, severity: Severity, message: str, evidence: dict[str, str]) -> Finding:
    fix = FIX if severity is Severity.ERROR else ""
    return Finding(rule=ID, severity=severity, subject=subject, message=message, evidence=evidence, fix=fix)
