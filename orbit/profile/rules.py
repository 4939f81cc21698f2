"""The rules of ``orbit lock check``: pure functions from the lock and the policy to findings. See docs/lock.md.

``lock-source``, ``lock-hash``, ``lock-reason``, ``lock-setting`` and ``lock-floor`` look at the whole lock and what it
is made from; ``lock-python``, ``lock-cuda-release``, ``lock-family`` and ``lock-wheel`` look at what the profile
installs and is compiled with.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from orbit.core.findings import Finding, Severity
from orbit.profile.floor import Drift
from orbit.profile.lock import Lock, Package
from orbit.profile.model import Profile
from orbit.profile.place import lock_command, project_name
from orbit.profile.platform import MARKER_ENVIRONMENT
from orbit.profile.policy import CudaRelease, Family, Policy, SourceRule, own_file

COMPILER_GROUP = "cuda"
"""The dependency group with the compiler that kernels are built with."""
WORKSPACE_KINDS = ("editable", "virtual", "directory")


@dataclass(frozen=True)
class Facts:
    """All that the rules look at."""

    lock: Lock
    policy: Policy
    profile: Profile
    recipes: frozenset[str] = frozenset()
    """Names of ``kernels/recipes/*.toml``."""
    settings: tuple[str, ...] = ()
    """Keys of ``[tool.uv]`` in the lock's pyproject.toml."""
    floor: tuple[Drift, ...] = ()
    """Where that pyproject.toml disagrees with the checkout's about what Orbit itself needs."""

    @functools.cached_property
    def packages(self) -> tuple[Package, ...]:
        """What the profile installs, and the compiler its kernels are built with."""
        kernels = (*self.profile.kernels.core, *self.profile.kernels.extended)
        groups = (COMPILER_GROUP,) if kernels and COMPILER_GROUP in self.lock.root.dev_dependencies else ()
        return self.lock.closure(self.profile.extras, groups)

    @property
    def policy_file(self) -> str:
        """The file that entries about this lock belong into."""
        return own_file(self.profile.policies)

    @property
    def project(self) -> str:
        """The file that the lock is made from."""
        return project_name(self.profile)

    @property
    def command(self) -> str:
        """The command that makes the lock anew."""
        return lock_command(self.profile)

    @functools.cached_property
    def off_release(self) -> frozenset[str]:
        """Packages that are off the CUDA release; a family does not report them a second time."""
        return frozenset(finding.subject for finding in cuda_release(self))


def run_rules(facts: Facts) -> tuple[Finding, ...]:
    """Every rule's findings, ordered by rule and subject."""
    found = [finding for rule in RULES for finding in rule(facts)]
    return tuple(sorted(found, key=lambda finding: (finding.rule, finding.subject)))


def sources(facts: Facts) -> Iterator[Finding]:
    """``lock-source``: a package is not from where the policy wants it, or comes from a second index."""
    registries = Counter(p.source.url for p in facts.lock.packages if p.source.kind == "registry")
    main = registries.most_common(1)[0][0] if registries else ""
    for package in facts.lock.packages:
        rule = facts.policy.source(package.name)
        if package is facts.lock.root and rule is None:
            continue
        problem = _source_problem(package, rule, main)
        if problem:
            yield _error(
                "lock-source",
                package.name,
                f"{package.name} {package.version}: {problem}" + (f" ({rule.reason})" if rule else ""),
                evidence={"version": package.version, "source": f"{package.source.kind} {package.source.url}"},
                fix=_source_fix(rule, facts),
            )


def hashes(facts: Facts) -> Iterator[Finding]:
    """``lock-hash``: something would be installed that is not tied to its content by sha256 or a git commit."""
    for package in facts.lock.packages:
        kind = package.source.kind
        if package is facts.lock.root:
            continue
        if kind == "git" and not package.source.commit:
            yield _error(
                "lock-hash",
                package.name,
                f"{package.name}: git source without a commit",
                evidence={"source": package.source.url},
                fix=f"run `{facts.command}`, which records the commit",
            )
        elif kind in ("registry", "url", "path"):
            bare = [artifact.filename for artifact in package.artifacts if not artifact.sha256]
            if bare or not package.artifacts:
                yield _error(
                    "lock-hash",
                    package.name,
                    f"{package.name} {package.version}: "
                    + (f"{len(bare)} of its files have no sha256" if bare else "the lock names no file of it"),
                    evidence={"files": ", ".join(bare[:5])},
                    fix="make the lock anew from an index that publishes sha256",
                )


def python(facts: Facts) -> Iterator[Finding]:
    """``lock-python``: the lock was not made for the profile's Python."""
    wanted = facts.profile.python
    known = MARKER_ENVIRONMENT["python_version"]
    if wanted != known or not SpecifierSet(facts.lock.requires_python).contains(wanted):
        yield _error(
            "lock-python",
            facts.profile.name,
            f"profile {facts.profile.name} is for Python {wanted}; the lock is for {facts.lock.requires_python}",
            evidence={"profile": wanted, "lock": facts.lock.requires_python, "platform": known},
            fix=f"set python in the profile and requires-python in {facts.project} to one version",
        )


def cuda_release(facts: Facts) -> Iterator[Finding]:
    """``lock-cuda-release``: a component of CUDA does not belong to the profile's release, or nobody has judged it."""
    table = facts.policy.release(facts.profile.cuda)
    if table is None:
        yield _error(
            "lock-cuda-release",
            facts.profile.name,
            f"profile {facts.profile.name} wants CUDA {facts.profile.cuda}, "
            f"which {facts.policy_file} does not describe",
            fix=f"add a [[cuda]] table for {facts.profile.cuda}",
        )
        return
    for package in facts.packages:
        problem, fix = _component_problem(package, table, facts)
        if problem:
            yield _error(
                "lock-cuda-release",
                package.name,
                f"{package.name} {package.version}: {problem}",
                evidence={"version": package.version, "release": table.release},
                fix=fix,
            )


def families(facts: Facts) -> Iterator[Finding]:
    """``lock-family``: packages that work only together are not all there, or disagree on their version."""
    installed = {package.name: package.version for package in facts.packages}
    for family in facts.policy.families:
        present = {
            name: version
            for name, version in installed.items()
            if name not in facts.off_release and family.matches(name)
        }
        problem = family_problem(family, present)
        if problem:
            yield _error(
                "lock-family",
                family.name,
                f"{family.name}: {problem} ({family.reason})",
                evidence=present,
                fix=f"pin the members to one set of versions in {facts.project} and run `{facts.command}`",
            )


def wheels(facts: Facts) -> Iterator[Finding]:
    """``lock-wheel``: a package has no wheel for the image's platform and nothing says how it is built."""
    allowed = {rule.name for rule in facts.policy.sdists}
    declared = {*facts.profile.kernels.core, *facts.profile.kernels.extended}
    for package in facts.packages:
        if not package.built or package.name in allowed or package.name in declared & facts.recipes:
            continue
        why = "its recipe is not in the profile" if package.name in facts.recipes else "it has no recipe"
        yield _error(
            "lock-wheel",
            package.name,
            f"{package.name} {package.version}: no wheel for CPython 3.12 on Linux x86-64, and {why}",
            evidence={"wheels": ", ".join(wheel.filename for wheel in package.wheels[:5]) or "none"},
            fix=f"add kernels/recipes/{package.name}.toml and name it in the profile's [kernels], or allow a plain "
            f"build with an [[sdists]] entry in {facts.policy_file}",
        )


def reasons(facts: Facts) -> Iterator[Finding]:
    """``lock-reason``: a version is held without a recorded reason, or a reason is left without anything held."""
    held = {name: f"override {name}{specifier}" for name, specifier in facts.lock.overrides.items()}
    for requirement in facts.lock.root.requires:
        if _has_upper_bound(requirement.specifier):
            held.setdefault(requirement.name, f"requirement {requirement.name}{requirement.specifier}")
    explained = {pin.name for pin in facts.policy.pins}
    for name in sorted(held.keys() - explained):
        yield _error(
            "lock-reason",
            name,
            f"{held[name]} is held without a reason",
            fix=f"add a [[pins]] entry for {name} to {facts.policy_file}, or let the version go",
        )
    for name in sorted(explained - held.keys()):
        yield _error(
            "lock-reason",
            name,
            f"{facts.policy_file} explains a pin of {name}, but nothing holds its version",
            fix="remove the [[pins]] entry, or bring the override or bound back",
        )


def settings(facts: Facts) -> Iterator[Finding]:
    """``lock-setting``: a key of ``[tool.uv]`` that Orbit's uv ignores, so that the lock depends on who makes it."""
    for key in sorted(set(facts.settings) - set(facts.policy.settings)):
        yield _error(
            "lock-setting",
            f"tool.uv.{key}",
            f"{facts.project}: tool.uv.{key} is not read by the uv that Orbit runs (UV_NO_CONFIG), but is by yours",
            fix="remove it; what the lock needs is said by requirements, overrides and constraints",
        )


def floor(facts: Facts) -> Iterator[Finding]:
    """``lock-floor``: a profile's own lock does not give Orbit what the checkout's pyproject.toml says it needs."""
    for drift in facts.floor:
        yield _error(
            "lock-floor",
            drift.subject,
            f"{facts.project}: {drift.subject} is {drift.there or 'absent'}, the checkout's pyproject.toml has "
            f"{drift.here or 'none'}: Orbit runs in this environment too",
            evidence={"checkout": drift.here, "profile": drift.there},
            fix=f"copy it to {facts.project} word for word and run `{facts.command}`",
        )


def _source_problem(package: Package, rule: SourceRule | None, main_index: str) -> str:
    problem = _place_problem(package, rule, main_index)
    if not problem and rule is not None and rule.version and not _contains(rule.version, package.version):
        return f"version must be {rule.version}"
    return problem


def _place_problem(package: Package, rule: SourceRule | None, main_index: str) -> str:
    source = package.source
    match rule.source if rule else "registry":
        case "forbidden":
            return "must not be in the lock"
        case "workspace" if source.kind not in WORKSPACE_KINDS or source.url != ".":
            return f"must be this checkout, is from {source.kind} {source.url}"
        case "registry" if source.kind != "registry":
            return f"must come from the index, is from {source.kind} {source.url}"
        case "registry" if source.url != main_index:
            return f"comes from a second index, {source.url}"
        case "git" if rule and (source.repository.removesuffix(".git"), source.commit) != (rule.url, rule.commit):
            found = f"{source.kind} {source.repository} {source.commit[:12]}".rstrip()
            return f"must be git {rule.url} at {rule.commit[:12]}, is from {found}"
    return ""


def _source_fix(rule: SourceRule | None, facts: Facts) -> str:
    if rule is None:
        return "use the one index, or add a [[sources]] entry that says why not"
    if rule.source == "forbidden":
        shown = f"orbit lock explain --profile {facts.profile.name} {rule.name}"
        return f"remove the requirement that brings it (`{shown}` shows who)"
    if rule.source == "git":
        entry = f'tool.uv.sources.{rule.name} = {{ git = "{rule.url}", rev = "{rule.commit}" }}'
        return f"set {entry} and run `{facts.command}`"
    bound = f"bound it to {rule.version} in {facts.project}" if rule.version else "remove its tool.uv.sources entry"
    return f"{bound} and run `{facts.command}`"


def _component_problem(package: Package, table: CudaRelease, facts: Facts) -> tuple[str, str]:
    component = table.component(package.name)
    if component is None:
        if not table.watches(package.name):
            return "", ""
        return (
            f"looks like a part of CUDA that nobody has judged against release {table.release}",
            f"add it to a component of [[cuda]] {table.release} in {facts.policy_file}, with the versions that fit",
        )
    if component.version and not _contains(component.version, package.version):
        return (
            f"off CUDA {table.release}, which needs {component.version} ({component.reason})",
            f'override it in {facts.project} ("{package.name}{component.version}") and run `{facts.command}`',
        )
    return "", ""


def family_problem(family: Family, present: dict[str, str]) -> str:
    """What is wrong with the members of a family that are ``present`` (version by name); empty when nothing is."""
    if not present:
        return ""
    absent = sorted(set(family.members) - present.keys())
    if family.complete and absent:
        return f"{', '.join(sorted(present))} without {', '.join(absent)}"
    public = {name: version.partition("+")[0] for name, version in present.items()}
    listed = ", ".join(f"{name} {version}" for name, version in sorted(public.items()))
    if family.equal:
        return f"versions disagree: {listed}" if len(set(public.values())) > 1 else ""
    if any(public.items() <= row.items() for row in family.combinations):
        return ""
    return f"not a known combination: {listed}"


def _has_upper_bound(specifier: str) -> bool:
    return any(part.operator in ("==", "===", "<", "<=", "~=") for part in SpecifierSet(specifier))


def _contains(specifier: str, version: str) -> bool:
    try:
        return SpecifierSet(specifier).contains(Version(version), prereleases=True)
    except ValueError:  # no version, or a number of thousands of digits
        return False


def _error(rule: str, subject: str, message: str, evidence: dict[str, str] | None = None, fix: str = "") -> Finding:
    return Finding(
        rule=rule, severity=Severity.ERROR, subject=subject, message=message, evidence=evidence or {}, fix=fix
    )


RULES: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    sources, hashes, python, cuda_release, families, wheels, reasons, settings, floor,
)  # fmt: skip
