"""``orbit lock check``: is the lock fresh, from the right sources, of one CUDA release, and explained?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orbit.core.findings import Finding
from orbit.core.records import Record
from orbit.profile.floor import floor_drift
from orbit.profile.freshness import check_fresh, read_project
from orbit.profile.lock import Lock
from orbit.profile.model import Profile
from orbit.profile.place import lock_command, lock_folder, profile_lock
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
    """Judge the lock of ``profile`` in the checkout ``root`` by the rules of docs/lock.md.

    Reads only; well under a second when fresh. Raises :class:`~orbit.errors.InputError` when lock, policy or
    pyproject.toml cannot be read or the profile's lock lies outside the checkout, and
    :class:`~orbit.errors.MissingError` without a lock or when freshness cannot be told (no uv, no index).
    """
    lock = profile_lock(profile, root)
    folder = lock_folder(profile, root)
    project = read_project(folder)
    facts = lock_facts(profile, root, lock, project)
    stale = check_fresh(folder, lock, project, command=lock_command(profile))
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


def lock_facts(profile: Profile, root: Path, lock: Lock, project: Mapping[str, Any]) -> Facts:
    """What the rules look at: ``lock``, made from the tables ``project``, beside the data of the checkout ``root``."""
    return Facts(
        lock=lock,
        policy=load_policy(root, profile.policies),
        profile=profile,
        recipes=frozenset(path.stem for path in (root / "kernels" / "recipes").glob("*.toml")),
        settings=tuple(project.get("tool", {}).get("uv", {})),
        floor=floor_drift(read_project(root), project) if profile.lock else (),
    )
