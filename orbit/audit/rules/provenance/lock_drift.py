"""lock-drift: an environment that says it is an installation of a lock holds what that lock installs.

Judged where the target names its lock (share/orbit/environment.json) or the caller does (``--lock``). An environment of
somebody else claims nothing, and nothing is held against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from packaging.version import Version

from orbit.audit.facts import Distribution, Environment
from orbit.audit.known.policy import Policy
from orbit.audit.models.claim import RECORD, Claim, claim_of, claim_problem, lock_of
from orbit.core.findings import Finding, Severity
from orbit.errors import InputError
from orbit.profile.lock import Lock, Package

ID = "lock-drift"
TITLE = "an environment that names its lock holds what that lock installs"
KINDS = frozenset(("environment", "image"))
SHOWN = 8
INSTALLERS = frozenset(("pip", "uv", "setuptools", "wheel", "orbit"))
"""Tools that the makers of environments put in by themselves; an image has Orbit in a layer above its environment."""
FIX = "make the environment from the lock (orbit env create), or lock what is meant to be in it"


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per kind of difference."""
    if problem := claim_problem(env):
        yield _finding(RECORD, f"cannot be read: {problem}", {})
    claim = claim_of(env)
    lock = lock_of(env, policy)
    installed = {dist.name: dist for dist in env.dists if dist.site == env.layout.site}
    if claim is not None:
        yield from _against_record(claim, installed)
        if policy.lock is not None and claim.lock != policy.lock.sha256:
            yield _finding(
                RECORD,
                "names another lock than the one given",
                {"environment": claim.lock, "given": policy.lock.sha256},
            )
    if lock is not None:
        packages = locked_packages(lock, policy.profile.extras)
        if claim is not None:
            yield from _record_against_lock(claim, packages)
        else:
            yield from _against_lock(lock, policy, packages, installed)
        yield from _origins(lock, installed)


def locked_packages(lock: Lock, extras: tuple[str, ...]) -> dict[str, Package]:
    """What a lock installs for a profile's extras; of a lock without these, everything that is not its own project."""
    try:
        closure = lock.closure(extras)
    except InputError:
        local = ("editable", "virtual", "directory")
        closure = tuple(package for package in lock.packages if package.source.kind not in local)
    return {package.name: package for package in closure}


def _against_record(claim: Claim, installed: Mapping[str, Distribution]) -> Iterator[Finding]:
    recorded = {dist.name: dist.version for dist in claim.distributions}
    yield from _differences("environment", "the environment's own record", recorded, installed)


def _against_lock(
    lock: Lock, policy: Policy, packages: Mapping[str, Package], installed: Mapping[str, Distribution]
) -> Iterator[Finding]:
    """Of an environment without a record: packages that have to be built are asked for, but with less weight."""
    kernels = (*policy.profile.kernels.core, *policy.profile.kernels.extended)
    own = {p.name for p in lock.packages if p.source.kind in ("editable", "virtual")}
    unbuilt = sorted(name for name, package in packages.items() if package.built and name not in installed)
    wanted = {name: package.version for name, package in packages.items() if name not in unbuilt}
    known = {name: dist for name, dist in installed.items() if name in wanted or name not in {*kernels, *own, *unbuilt}}
    yield from _differences("lock", "the lock", wanted, known)
    if unbuilt:
        yield _finding(
            "lock",
            f"{len(unbuilt)} packages of the lock that have no wheel are not installed",
            {"packages": ", ".join(unbuilt)},
            severity=Severity.WARNING,
        )


def _differences(
    subject: str, what: str, wanted: Mapping[str, str], installed: Mapping[str, Distribution]
) -> Iterator[Finding]:
    missing = [f"{name} {version}" for name, version in wanted.items() if name not in installed]
    extra = [f"{d.name} {d.version}" for d in installed.values() if d.name not in wanted and d.name not in INSTALLERS]
    other = [
        f"{name} {installed[name].version} (not {version})"
        for name, version in wanted.items()
        if name in installed and not same_version(installed[name].version, version)
    ]
    if missing:
        yield _finding(
            subject, f"{len(missing)} distributions of {what} are not installed", {"missing": _some(missing)}
        )
    if other:
        yield _finding(
            subject, f"{len(other)} distributions are of another version than in {what}", {"other": _some(other)}
        )
    if extra:
        yield _finding(
            subject,
            f"{len(extra)} distributions are installed that {what} does not have",
            {"extra": _some(extra)},
            severity=Severity.WARNING,
        )


def _record_against_lock(claim: Claim, packages: Mapping[str, Package]) -> Iterator[Finding]:
    """What was installed, as recorded, against what the lock installs: versions and hashes of the wheels."""
    recorded = {dist.name: dist for dist in claim.distributions}
    absent = [name for name in packages if name not in recorded and claim.skip_of(name) is None]
    other, hashes = [], []
    for name, package in packages.items():
        dist = recorded.get(name)
        if dist is None:
            continue
        if not same_version(dist.version, package.version):
            other.append(f"{name} {dist.version} (not {package.version})")
        elif dist.origin == "index" and dist.sha256 not in {wheel.sha256 for wheel in package.wheels}:
            hashes.append(f"{name} {dist.wheel or dist.version}")
    strangers = [name for name, dist in recorded.items() if dist.origin == "index" and name not in packages]
    for found, message in (
        (absent, "packages of the lock were left out without being recorded as left out"),
        (other, "packages were installed in another version than the lock has"),
        (hashes, "packages were installed from a wheel that is not in the lock"),
        (strangers, "packages were installed from an index without being in the lock"),
    ):
        if found:
            yield _finding(RECORD, f"{len(found)} {message}", {"packages": _some(found)})


def _origins(lock: Lock, installed: Mapping[str, Distribution]) -> Iterator[Finding]:
    """Distributions that say of themselves that they came from elsewhere than the lock's index."""
    strays = []
    for name, dist in installed.items():
        package = lock.find(name)
        if package is None or package.source.kind != "registry" or package.built or not dist.direct_url:
            continue
        known = {artifact.sha256 for artifact in package.artifacts}
        if not known & set(_hashes(dist.direct_url.get("archive_info"))):
            strays.append(f"{name} from {dist.direct_url.get('url', 'an unreadable direct_url.json')}")
    if strays:
        yield _finding(
            "lock", f"{len(strays)} distributions do not come from the lock's index", {"distributions": _some(strays)}
        )


def _hashes(archive: object) -> Iterator[str]:
    """sha256 digests of an ``archive_info``."""
    if isinstance(archive, dict):
        hashes = archive.get("hashes")
        if isinstance(hashes, dict) and isinstance(hashes.get("sha256"), str):
            yield hashes["sha256"]
        if isinstance(archive.get("hash"), str):
            yield archive["hash"].removeprefix("sha256=")


def same_version(found: str, wanted: str) -> bool:
    """Whether two versions are one; a local part (``+cu130``) that only the installed one has is a build of it."""
    try:
        one, two = Version(found), Version(wanted)
    except ValueError:  # no version, or a number of thousands of digits
        return found == wanted
    return one == two or (two.local is None and one.public == two.public)


def _some(items: Iterable[str]) -> str:
    every = sorted(items)
    rest = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(every[:SHOWN]) + rest


def _finding(subject: str, message: str, evidence: dict[str, str], *, severity: Severity = Severity.ERROR) -> Finding:
    return Finding(rule=ID, severity=severity, subject=subject, message=message, evidence=evidence, fix=FIX)
