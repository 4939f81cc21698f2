"""Audit one environment: read the facts once, run every rule over them, make the report. The only wiring there is."""

from __future__ import annotations

import contextlib
import datetime as dt
import gc
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from orbit.audit.coverage import arch_counts, count_results
from orbit.audit.dists import owners_of, read_dists
from orbit.audit.fact_cache import FactCache
from orbit.audit.facts import Environment, SharedObject, printable
from orbit.audit.hashing import Hashing
from orbit.audit.loader import Loader
from orbit.audit.objects import needed_exports, read_objects
from orbit.audit.policy import DEFAULT_UID, Policy, load_policy
from orbit.audit.report import SCHEMA, AuditReport, Expected, LibraryCoverage, TargetCoverage
from orbit.audit.rules import RULES, arch_coverage, expectation, needs_library
from orbit.audit.tree import find_layout, read_tree
from orbit.core.console import Progress, Silent
from orbit.core.findings import Finding
from orbit.profile.model import Profile

__all__ = ["AuditReport", "audit_environment", "evaluate", "read_environment"]


def audit_environment(
    prefix: Path,
    profile: Profile,
    *,
    uid: int = DEFAULT_UID,
    progress: Progress | None = None,
    today: dt.date | None = None,
    cache: Path | None = None,
) -> AuditReport:
    """Read the environment at ``prefix`` and judge it by ``profile`` for user ``uid``.

    With ``cache`` (a folder) digests of files that have not changed since the last audit are taken from there, and the
    report says how many; without it every file is hashed. Nothing in the environment is executed, imported or changed.

    Raises :class:`orbit.errors.InputError` when the folder is not an environment or the expectations are not valid.
    """
    progress = progress or Silent()
    began = time.monotonic()
    policy = load_policy(profile, uid=uid, today=today)
    with _without_collector():
        env = read_environment(prefix, profile, progress, cache)
        progress.step(f"checking {len(RULES)} rules")
        findings = evaluate(env, policy)
        return _report(env, policy, findings, time.monotonic() - began)


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Facts are a million live tuples without cycles; the cyclic collector would walk them again and again (0.5 s)."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def read_environment(prefix: Path, profile: Profile, progress: Progress, cache: Path | None = None) -> Environment:
    """All facts about an environment; files are hashed by other processes while ELF files are read here."""
    layout = find_layout(prefix, profile.python)
    dists = read_dists(layout)
    memory = FactCache(cache, layout) if cache is not None else None
    # without anything remembered the long work starts before the walk; otherwise the walk says what is left to do
    hashing = None if memory else Hashing(layout.prefix, dists)
    tree = read_tree(layout.prefix)
    remembered = memory.lookup(tree) if memory else {}
    if hashing is None:
        hashing = Hashing(layout.prefix, dists, known=remembered)
    progress.step(
        f"{len(tree.entries)} entries, {len(dists)} distributions; hashing {hashing.files} files "
        f"({hashing.bytes / 1e9:.2f} GB), {len(remembered)} digests remembered"
    )
    objects, damaged = read_objects(layout.prefix, tree)
    exports, without_exports = needed_exports(layout.prefix, objects)
    damaged |= without_exports
    digests = {**remembered, **hashing.result()}
    if memory is not None and hashing.files:
        try:
            memory.save(tree, digests)
        except OSError as error:
            progress.step(f"digests are not remembered: {memory.path.parent}: {error.strerror}")
    return Environment(
        layout=layout,
        tree=tree,
        dists=dists,
        objects=tuple(item for item in objects if item.path not in without_exports),
        exports=exports,
        damaged=damaged,
        owners=owners_of(dists),
        num_remembered=len(remembered),
        digests=digests,
    )


def evaluate(env: Environment, policy: Policy) -> tuple[Finding, ...]:
    """Findings of all rules, with waivers applied, in the order of the rules."""
    found: list[Finding] = []
    used: set[int] = set()
    for check in RULES.values():
        found.extend(_waive(finding, policy, used) for finding in check(env, policy))
    found.extend(expectation.check_waivers(policy, frozenset(used)))
    return tuple(found)


def _waive(finding: Finding, policy: Policy, used: set[int]) -> Finding:
    finding = _printable(finding)
    for position, waiver in enumerate(policy.expectations.waivers):
        if waiver.covers(finding.rule, finding.subject) and waiver.expires >= policy.today:
            used.add(position)
            return msgspec.structs.replace(finding, waiver=f"{waiver.reason} (until {waiver.expires})")
    return finding


def _printable(finding: Finding) -> Finding:
    return msgspec.structs.replace(
        finding,
        subject=printable(finding.subject),
        message=printable(finding.message),
        evidence={key: printable(value) for key, value in finding.evidence.items()},
        fix=printable(finding.fix),
    )


def _report(env: Environment, policy: Policy, findings: tuple[Finding, ...], seconds: float) -> AuditReport:
    device = [item for item in env.objects if item.containers]
    loader = Loader(env, policy)
    driver = Counter(
        soname
        for item in env.objects
        for soname, resolution in (loader.needed(item) if item.machine == loader.machine else ())
        if resolution.how == "driver"
    )
    sizes = [fact.size for fact in env.tree.entries.values() if fact.is_file]
    entries = env.tree.entries
    verified = [entries[path].size for path, digest in env.digests.items() if digest[0] != "!" and path in entries]
    return AuditReport(
        schema=SCHEMA,
        target=printable(str(env.layout.prefix)),
        profile=policy.profile.name,
        uid=policy.uid,
        findings=findings,
        expected=tuple(_expected(env, policy)),
        coverage=tuple(_coverage(env, policy, item) for item in device),
        facts={
            "files": len(sizes),
            "bytes": sum(sizes),
            "links": len(env.tree.links),
            "distributions": len(env.dists),
            "shared_objects": len(env.objects),
            "files_with_device_code": len(device),
            "containers": sum(len(item.containers) for item in device),
            "images": sum(len(container.images) for item in device for container in item.containers),
            "versioned_imports": sum(len(item.dynamic.imports) for item in env.objects if item.dynamic),
            "verified_files": len(verified),
            "verified_bytes": sum(verified),
            "remembered_digests": env.num_remembered,
        },
        driver_libraries=dict(sorted(driver.items())),
        seconds=round(seconds, 3),
    )


def _coverage(env: Environment, policy: Policy, item: SharedObject) -> LibraryCoverage:
    name = env.in_site(item.path)
    targets = []
    for target in policy.profile.targets:
        counts = count_results(item.containers, target.capability)
        targets.append(
            TargetCoverage(target=target.name, sass=counts["sass"], ptx_jit=counts["ptx-jit"], none=counts["none"])
        )
    return LibraryCoverage(
        file=printable(name),
        mode="dispatching" if arch_coverage.is_dispatching(policy, name) else "registering",
        containers=len(item.containers),
        images=arch_counts(item.containers),
        payload_bytes=sum(image.size for container in item.containers for image in container.images),
        targets=tuple(targets),
    )


def _expected(env: Environment, policy: Policy) -> Iterator[Expected]:
    """Declared exceptions that are true of this environment."""
    present = {env.in_site(item.path): item for item in env.objects if item.containers}
    for gap in policy.expectations.gaps:
        if not expectation.gap_problem(env, policy, gap, present.get(gap.file)):
            served = f"; served by {', '.join(gap.served_by)}" if gap.served_by else ""
            yield Expected(
                subject=gap.file,
                what=f"{gap.containers} containers {gap.result} on {gap.target}{served}",
                reason=gap.reason,
            )
    by_reason: Counter[tuple[str, str]] = Counter()
    for soname, names in needs_library.missing(env, policy).items():
        for name in names:
            if (entry := needs_library.declared(policy, name, soname)) is not None:
                by_reason[" ".join(entry.files), entry.reason] += 1
    for (subject, reason), count in sorted(by_reason.items()):
        yield Expected(subject=subject, what=f"{count} needed libraries are not shipped", reason=reason)
