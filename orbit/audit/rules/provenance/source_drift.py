"""source-drift: what was built from a repository was built from the commit that the lock names.

``direct_url.json`` (PEP 610) says where a distribution came from when that was not an index. A branch there is what
somebody asked for on one day; the commit beside it is what was built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from orbit.audit.facts import Distribution, Environment
from orbit.audit.installed.import_path import editable_root
from orbit.audit.known.policy import Policy
from orbit.audit.models.claim import claim_of, is_of_profile, lock_of, lock_policy
from orbit.core.findings import Finding, Severity

ID = "source-drift"
TITLE = "what was built from a repository is of the commit that was meant"
COMMIT = re.compile(r"^[0-9a-f]{40}$")
RELEASE = re.compile(r"^(refs/tags/)?v?\d+(\.\d+)+")


def check(env: Environment, policy: Policy) -> Iterator[Finding]:
    """One finding per distribution whose source is another one, not fixed, or not known."""
    for dist in env.dists:
        if "unreadable" in dist.direct_url:
            yield _finding(dist, Severity.WARNING, "direct_url.json cannot be read: its source is not known", {})
            continue
        vcs = dist.direct_url.get("vcs_info")
        url = dist.direct_url.get("url")
        url = url if isinstance(url, str) else ""
        if isinstance(vcs, dict):
            yield from _repository(env, policy, dist, url, vcs)
        elif not dist.direct_url and (wanted := unrecorded_commit(env, policy, dist)):
            yield _finding(
                dist,
                Severity.WARNING,
                f"says nothing of a repository, the lock names its commit {wanted[:12]}: perhaps the index's package",
                {"lock": wanted},
            )
        elif url.startswith(("http://", "https://")) and not _has_hash(dist.direct_url.get("archive_info")):
            yield _finding(dist, Severity.NOTE, "from a URL, without a hash of what was downloaded", {"url": url})
        elif (
            url.startswith("file:")
            and isinstance(dist.direct_url.get("dir_info"), dict)
            and editable_root(dist) is None
        ):
            yield _finding(
                dist, Severity.NOTE, "built from a folder: which commit that was is not recorded", {"url": url}
            )


def _repository(
    env: Environment, policy: Policy, dist: Distribution, url: str, vcs: Mapping[str, object]
) -> Iterator[Finding]:
    commit = str(vcs.get("commit_id", ""))
    revision = str(vcs.get("requested_revision", ""))
    wanted = locked_commit(env, policy, dist.name)
    evidence = {"url": url, "commit": commit} | ({"asked for": revision} if revision else {})
    if wanted and commit and commit != wanted:
        yield _finding(
            dist, Severity.ERROR, f"built from {commit[:12]}, the lock names {wanted[:12]}", evidence | {"lock": wanted}
        )
    elif not COMMIT.match(commit):
        yield _finding(dist, Severity.WARNING, "built from a repository, and the commit is not recorded", evidence)
    elif not wanted and not COMMIT.match(revision) and not RELEASE.match(revision):
        asked = f"the branch {revision}" if revision else "the default branch"
        yield _finding(
            dist, Severity.NOTE, f"built from {asked}: the same command builds another commit later", evidence
        )


def locked_commit(env: Environment, policy: Policy, name: str) -> str:
    """The commit that the lock, or the profile's policy, names for a distribution; empty when neither does."""
    lock = lock_of(env, policy)
    package = lock.find(name) if lock else None
    if package is not None:
        return package.source.commit
    rules = lock_policy(policy)
    rule = rules.source(name) if rules and is_of_profile(env, policy) else None
    return rule.commit if rule else ""


def unrecorded_commit(env: Environment, policy: Policy, dist: Distribution) -> str:
    """The commit that the lock names for a distribution that says nothing of its source; empty when that is right.

    What Orbit built itself came from a wheel, and the environment's record says so.
    """
    lock = lock_of(env, policy)
    package = lock.find(dist.name) if lock else None
    if package is None or package.source.kind != "git" or env.kind == "wheels":
        return ""
    claim = claim_of(env)
    built = claim is not None and any(item.name == dist.name and item.origin != "index" for item in claim.distributions)
    return "" if built else package.source.commit


def _has_hash(archive: object) -> bool:
    return isinstance(archive, dict) and bool(archive.get("hash") or archive.get("hashes"))


def _finding(dist: Distribution, severity: Severity, message: str, evidence: dict[str, str]) -> Finding:
    return Finding(
        rule=ID,
        severity=severity,
        subject=dist.name,
        message=message,
        evidence={"version": dist.version} | evidence,
        fix="build it from a fixed commit, and record that commit in the lock",
    )
