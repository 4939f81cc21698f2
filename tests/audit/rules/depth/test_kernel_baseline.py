"""kernel-baseline: what a build lost is an error, what it gained or resized is a note, no difference is silence."""

from __future__ import annotations

from pathlib import Path

from orbit.audit.deep.baseline import make_baseline
from orbit.audit.known.policy import Policy
from orbit.audit.rules import depth_rules
from orbit.core.findings import Finding, Severity
from tests.audit.depths import both, library, read
from tests.audit.support import make_policy
from tests.writers.cubin import EMPTY, Body, works

RULE = "kernel-baseline"


def compare(tmp_path: Path, before: list[bytes], after: list[bytes]) -> list[Finding]:
    """Findings of the rule over two builds of one file."""
    policy: Policy = make_policy()
    old_env, old = read(library(tmp_path / "a", *before), policy)
    env, depth = read(library(tmp_path / "b", *after), policy)
    (rule,) = (rule for rule in depth_rules(depth, make_baseline(old, old_env.in_site)) if rule.id == RULE)
    return list(rule.check(env, policy))


def kernels(*names: str, size: int = 2048) -> dict[str, Body]:
    return {name: works(size) for name in names}


def test_a_kernel_that_is_gone(tmp_path: Path) -> None:
    (finding,) = compare(
        tmp_path, [both(kernels("_Z1a", "_Z1b"), kernels("_Z1a", "_Z1b"))], [both(kernels("_Z1a"), kernels("_Z1a"))]
    )
    assert (finding.severity, finding.subject) == (Severity.ERROR, "ext/_c.so")
    assert "b" in finding.evidence["removed"]


def test_a_kernel_that_is_gone_for_one_target(tmp_path: Path) -> None:
    (finding,) = compare(
        tmp_path,
        [both(kernels("_Z1a", "_Z1b"), kernels("_Z1a", "_Z1b"))],
        [both(kernels("_Z1a", "_Z1b"), kernels("_Z1a"))],
    )
    assert finding.severity is Severity.ERROR
    assert "no longer for sm_100a" in finding.evidence


def test_a_kernel_that_does_nothing_any_more(tmp_path: Path) -> None:
    (finding,) = compare(
        tmp_path,
        [both(kernels("_Z1a"), kernels("_Z1a"))],
        [both(kernels("_Z1a"), {"_Z1a": EMPTY})],
    )
    assert finding.severity is Severity.ERROR
    assert "do nothing now on sm_100a" in finding.evidence


def test_more_and_larger_is_a_note_and_the_same_is_nothing(tmp_path: Path) -> None:
    before = [both(kernels("_Z1a"), kernels("_Z1a"))]
    (finding,) = compare(tmp_path, before, [both(kernels("_Z1a", "_Z1b", size=4096), kernels("_Z1a", "_Z1b"))])
    assert (finding.severity, finding.evidence["kernels added"]) == (Severity.NOTE, "1")
    assert compare(tmp_path / "same", before, before) == []


def test_a_file_without_device_code_any_more(tmp_path: Path) -> None:
    found = compare(tmp_path, [both(kernels("_Z1a"), kernels("_Z1a"))], [])
    assert [(f.severity, f.evidence["files"]) for f in found] == [(Severity.ERROR, "ext/_c.so")]
