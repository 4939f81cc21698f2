"""Turn facts and findings into the report of one target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from orbit.audit.binary.coverage import Result, arch_bytes, arch_counts, count_results, result_of
from orbit.audit.facts import Environment, SharedObject, printable
from orbit.audit.known import vendor
from orbit.audit.known.knowledge import libraries
from orbit.audit.known.policy import Policy
from orbit.audit.known.vendor import Unshipped
from orbit.audit.models.loader import Loader, loader_of
from orbit.audit.reports.report import (
    ArchitectureUse,
    DepthLibrary,
    Expected,
    LibraryCoverage,
    LibraryRelease,
    LoaderRow,
    TargetCoverage,
    TargetReport,
)
from orbit.audit.rules import expectation
from orbit.audit.rules.coverage import arch_coverage
from orbit.audit.rules.loading import needs_library
from orbit.core.findings import Finding, Skipped


def make_report(
    env: Environment,
    policy: Policy,
    findings: tuple[Finding, ...],
    *,
    target: str,
    rules: tuple[str, ...],
    skipped: tuple[Skipped, ...],
    depth: tuple[DepthLibrary, ...] = (),
    seconds: float,
) -> TargetReport:
    """Everything a report shows of one target."""
    device = [item for item in env.objects if item.containers]
    rows = tuple(loader_rows(env, loader_of(env, policy)))
    driver = Counter(row.soname for row in rows if row.how == "driver")
    sizes = [fact.size for fact in env.tree.entries.values() if fact.is_file]
    entries = env.tree.entries
    verified = [entries[path].size for path, digest in env.digests.items() if digest[0] != "!" and path in entries]
    return TargetReport(
        target=printable(target),
        kind=env.kind,
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
        rules=rules,
        skipped=skipped,
        loader=rows,
        libraries=tuple(_libraries(env)),
        depth=depth,
        architectures=tuple(architectures(device, policy)),
        distributions=distributions(env),
    )


def _libraries(env: Environment) -> Iterator[LibraryRelease]:
    for item in library_releases(env):
        yield msgspec.structs.replace(item, file=printable(item.file), soname=printable(item.soname))


def distributions(env: Environment) -> dict[str, str]:
    """Versions by name; several versions of one name, in several site-packages or by accident, are all told."""
    found: dict[str, list[str]] = {}
    for dist in env.dists:
        versions = found.setdefault(printable(dist.name), [])
        if (version := printable(dist.version)) not in versions:
            versions.append(version)
    return {name: ", ".join(sorted(versions)) for name, versions in sorted(found.items())}


def architectures(device: Sequence[SharedObject], policy: Policy) -> Iterator[ArchitectureUse]:
    """Images and bytes of every architecture, with the targets that can use them; most bytes first."""
    images: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for item in device:
        images.update(arch_counts(item.containers))
        sizes.update(arch_bytes(item.containers))
    for arch, size in sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0])):
        uses = {target.name: use_of(arch, target.capability) for target in policy.profile.targets}
        yield ArchitectureUse(
            arch=printable(arch),
            images=images[arch],
            payload_bytes=size,
            sass=tuple(name for name, use in uses.items() if use == "sass"),
            jit=tuple(name for name, use in uses.items() if use == "ptx-jit"),
        )


def use_of(arch: str, capability: str) -> Result:
    """What code for ``arch`` is to a device. Link-time code (``lto_75``) is linked for any later device at run time."""
    name = f"compute_{arch.removeprefix('lto_')}" if arch.startswith("lto_") else arch
    return result_of(frozenset((name,)), capability)


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
        bytes_by_arch=arch_bytes(item.containers),
        targets=tuple(targets),
        distribution=printable(env.owners.get(item.path, "")),
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
    yield from _accepted(present, policy)
    by_reason: Counter[tuple[str, str]] = Counter()
    for soname, names in needs_library.missing(env, policy).items():
        for name in names:
            if (entry := needs_library.declared(policy, name, soname, env.kind)) is not None:
                names_of = entry.names if isinstance(entry, Unshipped) else entry.files
                by_reason[" ".join(names_of), entry.reason] += 1
    for (subject, reason), count in sorted(by_reason.items()):
        yield Expected(subject=subject, what=f"{count} needed libraries are not shipped", reason=reason)


def _accepted(present: Mapping[str, SharedObject], policy: Policy) -> Iterator[Expected]:
    """Vendor libraries that are right without machine code for a target."""
    for name, item in present.items():
        for target in policy.profile.targets:
            dispatching = arch_coverage.is_dispatching(policy, name)
            for result, positions in arch_coverage.gaps_of(item, target, dispatching=dispatching).items():
                if entry := vendor.accepted(name, result):
                    what = f"{len(positions)} containers {result} on {target.name}"
                    yield Expected(subject=printable(name), what=what, reason=entry.reason)


def loader_rows(env: Environment, loader: Loader) -> Iterator[LoaderRow]:
    """The loader truth table: what every NEEDED entry of every native object becomes."""
    for item in env.objects:
        if item.machine == loader.machine:
            for soname, resolution in loader.needed(item):
                yield LoaderRow(
                    file=printable(env.in_site(item.path)),
                    soname=printable(soname),
                    how=resolution.how,
                    path=printable(" ".join(env.in_site(path) for path in resolution.paths)),
                )


def library_releases(env: Environment) -> tuple[LibraryRelease, ...]:
    """The listed libraries that are in the target, each with the release it states, in order of family and file."""
    known = libraries()
    order = {family.name: position for position, family in enumerate(known.families)}
    rows = []
    for item in env.objects:
        if item.dynamic is None or "/stubs/" in item.path:
            continue
        name = item.path.rpartition("/")[2]
        family = known.family_of(name, item.dynamic.soname)
        if family is not None:
            rows.append((family.name, item.path, item.dynamic.soname or name, item.release))
        rows += [(other, item.path, f"linked into {name}", release) for other, release in item.embedded]
    rows.sort(key=lambda row: (order.get(row[0], len(order)), row[1]))
    return tuple(
        LibraryRelease(family=family, file=env.in_site(path), soname=soname, release=release)
        for family, path, soname, release in rows
    )
