"""``orbit lock check``: is the lock fresh, from the right sources, of one CUDA release, and explained?"""

from __future__ import annotations

from pathlib import Path

from orbit.core.findings import Finding
from orbit.core.records import Record
from orbit.profile.freshness import check_fresh, read_project
from orbit.profile.lock import read_lock
from orbit.profile.model import Profile
from orbit.profile.policy import load_policy
from orbit.profile.rules import Facts, run_rules


class LockReport(Record, frozen=True, kw_only=True):
    """What a check of the lock saw."""

    schema: str = "orbit.lock-report/1"
    profile: str
    lock_sha256: str
    packages: int
    """Distributions the profile installs."""
    download_bytes: int
    """Sum of their wheels, and of the sdists of those that are built."""
    built: tuple[str, ...]
    """Names of those without a usable wheel."""
    findings: tuple[Finding, ...]

    @property
    def clean(self) -> bool:
        """Whether no finding is fatal."""
        return not any(finding.fatal for finding in self.findings)


def check_lock(profile: Profile, root: Path) -> LockReport:
    """Judge ``root/uv.lock`` for ``profile`` by the rules of docs/lock.md. Reads only; well under a second when fresh.

    Raises :class:`~orbit.errors.InputError` when lock, policy or pyproject.toml cannot be read and
    :class:`~orbit.errors.MissingError` when freshness cannot be told (no uv, no index).
    """
    lock = read_lock(root / "uv.lock")
    project = read_project(root)
    facts = Facts(
        lock=lock,
        policy=load_policy(root),
        profile=profile,
        recipes=frozenset(path.stem for path in (root / "kernels" / "recipes").glob("*.toml")),
        settings=tuple(project.get("tool", {}).get("uv", {})),
    )
    stale = check_fresh(root, lock, project)
    installed = lock.closure(profile.extras)
    artifacts = [package.wheel or package.sdist for package in installed]
    return LockReport(
        profile=profile.name,
        lock_sha256=lock.sha256,
        packages=len(installed),
        download_bytes=sum(artifact.size for artifact in artifacts if artifact),
        built=tuple(package.name for package in installed if package.built),
        findings=(*((stale,) if stale else ()), *run_rules(facts)),
    )
