"""arch-coverage: every piece of device code has machine code for every target of the profile.

Registering files (extension modules: torch, transformer-engine, flash-attn, ...) hand each of their containers to the
driver on every device, so each container must cover each target. Dispatching files (vendor libraries) choose among
their containers by architecture; asking every container of them is a false alarm, so the file as a whole must cover
each target. ``vendor.toml`` says which libraries dispatch whatever the environment, the profile's expectations which
files besides; everything else is held to the strict rule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from orbit.audit.binary.coverage import Result, arch_counts, container_archs, file_result, results_of
from orbit.audit.facts import Environment, SharedObject
from orbit.audit.known import vendor
from orbit.audit.known.policy import Gap, Policy, matches
from orbit.core.findings import Finding, Severity
from orbit.profile.model import GpuTarget

ID = "arch-coverage"
TITLE = "every piece of device code has machine code for every target"
SHOWN = 30
FIX = "build it for {feature} as well, or declare the gap with its reason in kernels/expectations/ ([[gaps]])"


def is_dispatching(policy: Policy, name: str) -> bool:
    """Whether a file (relative to site-packages) is known, or declared, to choose its own containers."""
    return vendor.chooses(name) or any(matches(name, item.files) for item in policy.expectations.dispatching)


def gaps_of(item: SharedObject, target: GpuTarget, *, dispatching: bool) -> dict[Result, list[int]]:
    """Containers (by position in the file) without machine code for ``target``, by result; empty when it is covered."""
    if dispatching:
        result = file_result(item.containers, target.capability)
        return {} if result == "sass" else {result: list(range(len(item.containers)))}
    found: dict[Result, list[int]] = {}
    for position, result in enumerate(results_of(item.containers, target.capability)):
        if result != "sass":
            found.setdefault(result, []).append(position)
    return found


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per file, target and result that no [[gaps]] entry declares, or that differs from the declared.

    Several files of one distribution that lack the same target are one finding: one build was not made for it.
    """
    groups: dict[tuple[str, str, str], list[Finding]] = defaultdict(list)
    for owner, target, finding in _findings(env, policy):
        groups[owner or finding.subject, target, finding.evidence["result"]].append(finding)
    for (owner, _target, _result), findings in groups.items():
        yield findings[0] if len(findings) == 1 else _together(owner, findings)


def _together(owner: str, findings: list[Finding]) -> Finding:
    """Many files of one distribution as one finding."""
    first = findings[0]
    files = [f"{finding.subject} ({finding.message.partition(' containers')[0]})" for finding in findings]
    rest = f" and {len(files) - SHOWN} more" if len(files) > SHOWN else ""
    return Finding(
        rule=ID,
        severity=Severity.ERROR,
        subject=owner,
        message=f"{len(findings)} files of it: in {first.subject} {first.message}",
        evidence={**first.evidence, "files (containers)": ", ".join(files[:SHOWN]) + rest},
        fix=first.fix,
    )


def _findings(env: Environment, policy: Policy) -> Iterator[tuple[str, str, Finding]]:
    """(owner of the file, name of the target, finding) for every file, target and result."""
    for item in env.objects:
        if not item.containers:
            continue
        name = env.in_site(item.path)
        for target in policy.profile.targets:
            found = gaps_of(item, target, dispatching=is_dispatching(policy, name))
            for result, positions in found.items():
                if vendor.accepted(name, result):
                    continue
                declared = next(
                    (
                        gap
                        for gap in policy.expectations.gaps
                        if (gap.file, gap.target, gap.result) == (name, target.name, result)
                    ),
                    None,
                )
                if declared is None or declared.containers != len(positions):
                    owner = env.owners.get(item.path, "") if declared is None else ""
                    finding = _finding(item, name, target=target, result=result, positions=positions, declared=declared)
                    yield owner, target.name, finding


def _finding(
    item: SharedObject, name: str, *, target: GpuTarget, result: str, positions: list[int], declared: Gap | None
) -> Finding:
    total = len(item.containers)
    devices = "/".join(target.devices)
    what = (
        f"have only PTX for {target.name} ({devices}): compiled by the driver at first use, slow and known to go wrong"
        if result == "ptx-jit"
        else f"have nothing that {target.name} ({devices}) can load"
    )
    difference = f"; {declared.containers} were declared" if declared else ""
    first = item.containers[positions[0]]
    return Finding(
        rule=ID,
        severity=Severity.ERROR,
        subject=name,
        message=f"{len(positions)} of {total} containers {what}{difference}",
        evidence={
            "target": target.name,
            "result": result,
            "containers": ", ".join(map(str, positions[:8])) + (", ..." if len(positions) > 8 else ""),
            "first": f"{first.section}[{first.index}] at byte {first.offset}",
            "first holds": " ".join(sorted(container_archs(first))),
            "images": " ".join(f"{arch}:{count}" for arch, count in arch_counts(item.containers).items()),
        },
        fix=FIX.format(feature=target.feature),
    )
