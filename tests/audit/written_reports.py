"""Reports made by hand: what the renderers are tested with."""

from __future__ import annotations

from typing import Any

from orbit.audit.reports.report import (
    ArchitectureUse,
    AuditReport,
    DepthLibrary,
    DepthTarget,
    Expected,
    LibraryCoverage,
    LibraryRelease,
    LoaderRow,
    TargetCoverage,
    TargetReport,
)
from orbit.core.findings import Finding, Severity, Skipped

FACTS = {
    "files": 12, "bytes": 3000, "links": 1, "distributions": 3, "shared_objects": 2, "files_with_device_code": 1,
    "containers": 4, "images": 9, "versioned_imports": 5, "verified_files": 10, "verified_bytes": 1_234_567_890,
    "remembered_digests": 0,
}  # fmt: skip
COVERAGE = LibraryCoverage(
    file="ext/_c.so",
    mode="registering",
    containers=4,
    images={"sm_90a": 9},
    payload_bytes=2_500_000,
    bytes_by_arch={"sm_90a": 2_500_000},
    targets=(
        TargetCoverage(target="h100", sass=4, ptx_jit=0, none=0),
        TargetCoverage(target="b200", sass=1, ptx_jit=2, none=1),
    ),
)
HOSTILE = (
    "a</script><script>alert(1)</script>", "q\"'`&amp;<b>", "line\nbreak\r\ttab", "\x1b[31mred\x1b]0;t\x07\x00",
    "u\u2028v\u2029w", "\u202egnp.exe", "<!--", "]]>", "back\\slash\\udc80", "100% {x} ${y} $HOME", "\ufffe\uffff",
    "\U0001f600 \xe9 \x85 \x9b", "long/" + "x" * 300,
)  # fmt: skip
"""Names as a hostile archive may have them (what is no UTF-8 is written as an escape before it comes into a report)."""


def finding(severity: Severity = Severity.ERROR, **changes: Any) -> Finding:
    """An arch-coverage finding, changed."""
    fields = {"rule": "arch-coverage", "subject": "ext/_c.so", "message": "it is wrong", "fix": "build it", **changes}
    return Finding(severity=severity, **fields)


def report(**changes: Any) -> TargetReport:
    """A report of an empty target, changed."""
    fields: dict[str, Any] = {
        "target": "/opt/orbit", "kind": "environment", "profile": "probe", "uid": 65534, "findings": (),
        "expected": (), "coverage": (), "facts": FACTS, "driver_libraries": {}, "seconds": 1.5,
        "rules": ("arch-coverage", "unreadable"), **changes,
    }  # fmt: skip
    return TargetReport(**fields)


def call(*reports: TargetReport, **changes: Any) -> AuditReport:
    """The result of one call."""
    return AuditReport(orbit="0.1.0", reports=reports, **changes)


def full_report(**changes: Any) -> TargetReport:
    """A report in which nothing is empty."""
    fields: dict[str, Any] = {
        "findings": (
            finding(
                message="3 of 4 containers have nothing that b200 (B200) can load",
                evidence={"target": "b200", "result": "none"},
                fix="build it for sm_100a as well",
            ),
            finding(subject="ext/_d.so", waiver="known upstream (until 2027-01-01)"),
            finding(Severity.WARNING, rule="dangling-link", subject="bin/python", message="leads out", fix=""),
            finding(Severity.NOTE, rule="unreadable", subject="two words + more", message="cannot be read", fix="look"),
        ),
        "expected": (Expected(subject="x.so", what="2 containers none on b200", reason="made for Hopper only"),),
        "coverage": (COVERAGE,),
        "driver_libraries": {"libcuda.so.1": 3},
        "rules": ("arch-coverage", "dangling-link", "unreadable", "needs-library"),
        "skipped": (Skipped(what="record-hash", reason="not selected", estimate="2 s"),),
        "loader": (
            LoaderRow(file="ext/_c.so", soname="libcuda.so.1", how="driver", path=""),
            LoaderRow(file="ext/_c.so", soname="libx.so", how="loader", path="ext/libx.so"),
        ),
        "libraries": (
            LibraryRelease(family="NCCL", file="nccl/libnccl.so.2", soname="libnccl.so.2", release="2.28.9"),
        ),
        "depth": (
            DepthLibrary(
                file="ext/_c.so",
                kernels=10,
                targets=(
                    DepthTarget(target="h100", kernels=10, stubs=0, missing=0, code_bytes=4000),
                    DepthTarget(target="b200", kernels=4, stubs=3, missing=6, code_bytes=900),
                ),
            ),
        ),
        "architectures": (
            ArchitectureUse(arch="sm_90a", images=9, payload_bytes=2_500_000, sass=("h100",), jit=()),
            ArchitectureUse(arch="compute_90", images=2, payload_bytes=300_000, sass=(), jit=("h100", "b200")),
            ArchitectureUse(arch="sm_75", images=4, payload_bytes=1_200_000, sass=(), jit=()),
        ),
        "distributions": {"ext": "1.0", "good": "2.0"},
        **changes,
    }
    return report(**fields)


def hostile_report() -> TargetReport:
    """A report in which every text is hostile."""
    names = HOSTILE
    return full_report(
        target=names[0],
        findings=tuple(
            finding(
                subject=name, message=name, rule=name, fix=name, evidence={name: name}, waiver=name if i % 3 else ""
            )
            for i, name in enumerate(names)
        ),
        expected=tuple(Expected(subject=name, what=name, reason=name) for name in names),
        coverage=tuple(
            LibraryCoverage(
                file=name, mode="registering", containers=1, images={name: 1}, payload_bytes=7, targets=COVERAGE.targets
            )
            for name in names
        ),
        driver_libraries=dict.fromkeys(names, 1),
        skipped=tuple(Skipped(what=name, reason=name, estimate=name) for name in names),
        rules=(*names, "arch-coverage"),
        loader=tuple(LoaderRow(file=name, soname=name, how="loader", path=name) for name in names),
        libraries=tuple(LibraryRelease(family=name, file=name, soname=name, release=name) for name in names),
        depth=tuple(
            DepthLibrary(
                file=name,
                kernels=1,
                targets=(DepthTarget(target=name, kernels=1, stubs=0, missing=0, code_bytes=1),),
            )
            for name in names
        ),
        architectures=tuple(
            ArchitectureUse(arch=name, images=1, payload_bytes=1, sass=(name,), jit=()) for name in names
        ),
        distributions=dict.fromkeys(names, names[0]),
    )
