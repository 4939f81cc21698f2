"""arch-feature: kernels that need a device's own instructions are compiled with them.

``wgmma`` and ``tcgen05`` exist in ``sm_90a`` and ``sm_100a`` code only. A build for plain ``sm_90`` compiles, loads and
is counted as covered; its kernels then abort ("Arch conditional MMA instruction used without targeting ...") or fall
back to a slow path. Which files need it is declared (``[[features]]`` of the profile's expectations and of
artifacts.toml) or told by the file itself: its name says ``90a``, or nearly all of its containers have the suffix.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from orbit.audit.binary.coverage import arch_counts, container_archs, feature_of, result_of
from orbit.audit.binary.fatbin import Container
from orbit.audit.facts import Environment, SharedObject
from orbit.audit.known.policy import Policy, matches
from orbit.audit.rules.coverage.arch_coverage import is_dispatching
from orbit.audit.rules.integrity.data import artifacts
from orbit.core.findings import Finding, Severity
from orbit.profile.model import GpuTarget

ID = "arch-feature"
TITLE = "kernels that need a device's own instructions are compiled with them"
NAMED = re.compile(r"(?:^|[_.-])(?:sm|compute)?_?(\d{2,3}[af])(?=[_.-])")
MAJORITY = 0.75
"""Where so many containers have the suffix, those without it were forgotten."""
MIN_CONTAINERS = 4


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per file and target (or architecture in its name) without the instructions it needs."""
    for item in env.objects:
        if not item.containers:
            continue
        name = env.in_site(item.path)
        yield from _named(item, name)
        for target in policy.profile.targets:
            if finding := _declared(item, name, target, policy) or _general(item, name, target, policy):
                yield finding
            elif not is_dispatching(policy, name):
                yield from _forgotten(item, name, target)


def _declared(item: SharedObject, name: str, target: GpuTarget, policy: Policy) -> Finding | None:
    for feature in policy.expectations.features:
        if feature.target != target.name or not matches(name, feature.files):
            continue
        own, plain = split(item.containers, target)
        wanted = feature.containers or len(own) + len(plain)
        if len(own) < wanted or not own:
            return _finding(item, name, target, own=own, plain=plain, wanted=max(wanted, 1), reason=feature.reason)
    return None


def _general(item: SharedObject, name: str, target: GpuTarget, policy: Policy) -> Finding | None:
    """What is known of a family of files, whatever the profile: one container with the instructions is enough."""
    if any(feature.target == target.name and matches(name, feature.files) for feature in policy.expectations.features):
        return None
    for known in artifacts().features:
        if known.capability == target.capability and matches(name, known.files):
            own, plain = split(item.containers, target)
            if plain and not own:
                return _finding(item, name, target, own=own, plain=plain, wanted=1, reason=known.reason)
    return None


def split(containers: tuple[Container, ...], target: GpuTarget) -> tuple[list[Container], list[Container]]:
    """(containers with machine code for the target that has its own instructions, those with plain code only)."""
    own: list[Container] = []
    plain: list[Container] = []
    for container in containers:
        archs = container_archs(container)
        if feature_of(archs, target.capability):
            own.append(container)
        elif result_of(archs, target.capability) == "sass":
            plain.append(container)
    return own, plain


def _forgotten(item: SharedObject, name: str, target: GpuTarget) -> Iterator[Finding]:
    own, plain = split(item.containers, target)
    total = len(own) + len(plain)
    if plain and total >= MIN_CONTAINERS and len(own) >= MAJORITY * total:
        yield _finding(
            item,
            name,
            target,
            own=own,
            plain=plain,
            wanted=total,
            reason="the other translation units of the file have it",
            severity=Severity.WARNING,
        )


def _named(item: SharedObject, name: str) -> Iterator[Finding]:
    """Files whose name promises an architecture with a suffix that is nowhere in them."""
    found = arch_counts(item.containers)
    for match in NAMED.finditer(name.rpartition("/")[2]):
        wanted = f"sm_{match[1]}"
        if wanted not in found:
            yield Finding(
                rule=ID,
                severity=Severity.ERROR,
                subject=name,
                message=f"its name says {match[1]}, but no container has {wanted}",
                evidence={"images": " ".join(f"{arch}:{count}" for arch, count in found.items())},
                fix=f"compile it for {wanted} (-gencode arch=compute_{match[1]},code={wanted})",
            )


def _finding(
    item: SharedObject,
    name: str,
    target: GpuTarget,
    *,
    own: list[Container],
    plain: list[Container],
    wanted: int,
    reason: str,
    severity: Severity = Severity.ERROR,
) -> Finding:
    if plain:
        what = f"{len(plain)} containers have plain code for {target.name} where {target.feature} is needed"
    else:
        what = f"{len(own)} containers have {target.feature}, {wanted} are expected"
    first = plain[0] if plain else item.containers[0]
    return Finding(
        rule=ID,
        severity=severity,
        subject=name,
        message=what,
        evidence={
            "target": target.name,
            "why": reason,
            f"with {target.feature}": str(len(own)),
            "first": f"{first.section}[{first.index}] at byte {first.offset}",
            "images": " ".join(f"{arch}:{count}" for arch, count in arch_counts(item.containers).items()),
        },
        fix=f"compile for {target.feature}, not {target.sass} (TORCH_CUDA_ARCH_LIST with the suffix, or -gencode)",
    )
