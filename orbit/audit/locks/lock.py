"""Audit a lock: what it will install, before anything is installed.

The lock itself is judged by its rules; of every wheel only the directory and the metadata are read, a few kilobytes of
gigabytes, and the rules that need no content judge the wheels as if they were installed together. What needs content,
and what could not be read, is skipped and says so.
"""

from __future__ import annotations

import datetime as dt
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from orbit.audit.evaluate import evaluate, waive
from orbit.audit.facts import Environment, printable
from orbit.audit.known.policy import DEFAULT_UID, load_policy
from orbit.audit.locks.lock_formats import Listed, read_listed
from orbit.audit.locks.lock_rules import generic_findings, sdist_findings
from orbit.audit.locks.lock_wheels import Read, Reader, lock_environment, one_of_each
from orbit.audit.reports.report import TargetReport
from orbit.audit.reports.summary import distributions
from orbit.audit.rules import RULES
from orbit.audit.rules.integrity import file_conflict
from orbit.core.console import Progress, Silent
from orbit.core.findings import Finding, Severity, Skipped
from orbit.errors import MissingError
from orbit.profile.check import lock_facts
from orbit.profile.freshness import check_fresh, read_project
from orbit.profile.model import Profile
from orbit.profile.place import checkout_of, lock_command
from orbit.profile.rules import run_rules

METADATA_RULES = (
    "requirement", "family", "python-floor", "look-alike", "file-conflict", "shadowed-module", "foreign-extension",
    "wheel-tag", "wheel-archive", "path-file",
)  # fmt: skip
"""Rules of the audit that need names, sizes and metadata only."""
WHOLE_RULES = frozenset({"requirement", "family"})
"""Those of them that also say what is missing, of a target that is complete."""
SHOWN = 5


def audit_lock(
    path: Path,
    profile: Profile,
    *,
    progress: Progress | None = None,
    cache: Path | None = None,
    wheels: Sequence[Path] = (),
    offline: bool = False,
    uid: int = DEFAULT_UID,
    today: dt.date | None = None,
    rules: Collection[str] | None = None,
    expectations: tuple[Path, ...] = (),
) -> TargetReport:
    """Judge the lock at ``path`` (uv.lock, pylock.toml, requirements.txt) for ``profile``.

    ``cache`` keeps what was read of wheels by their sha256; ``wheels`` are folders with wheels that need not be asked
    for; ``offline`` asks no server. ``rules`` are the ids that may run (all when not given),
    ``expectations`` further files of waivers. The profile's own lock in a checkout is judged by its policy there, any
    other by what holds for every lock.

    Raises :class:`orbit.errors.MissingError` without a file and :class:`orbit.errors.InputError` when it is no lock.
    """
    began = time.monotonic()
    progress = progress or Silent()
    listed = read_listed(path, profile.extras)
    checkout = checkout_of(path, profile) if listed.lock is not None else None
    own = checkout is not None
    policy = load_policy(profile, uid=uid, today=today, extra=expectations)
    if own:
        policy = replace(policy, lock=listed.lock)
    skipped: list[Skipped] = []
    found = list(_own(listed, profile, checkout, offline, skipped) if checkout else generic_findings(listed, profile))
    chosen, others = one_of_each(listed.packages)
    skipped += [
        Skipped(what=f"{name} {', '.join(versions)}", reason="the lock has several versions; one was judged")
        for name, versions in sorted(others.items())
    ]
    progress.step(f"{len(chosen)} packages; reading the metadata of their wheels")
    reader = Reader(path, cache=cache, folders=wheels, offline=offline, progress=progress)
    read = reader.run(chosen if listed.format != "requirements" else ())
    env = lock_environment(chosen, read.wheels, profile)
    found += sdist_findings(chosen, read.sdists)
    found += [_broken(file, why) for file, why in sorted(read.broken.items())]
    judged = [RULES[name] for name in METADATA_RULES if name in RULES and (rules is None or name in rules)]
    if rules is not None:
        found = [finding for finding in found if finding.rule in rules or finding.rule not in RULES]
    found = [waive(finding, policy, set(), "lock") for finding in found]
    # a resolution is all that will be installed; a list of requirements, like a folder of wheels, need not be
    whole = replace(env, kind="environment") if listed.format != "requirements" else env
    for rule in judged:
        facts = whole if rule.id in WHOLE_RULES else env
        judgement = evaluate(facts, policy, [rule])
        found += [_settled(_forced(finding, listed, own=own), own=own) for finding in judgement]
    skipped += _unread(listed, read, len(chosen))
    skipped += _not_judged(env, rules)
    return TargetReport(
        target=printable(str(path)),
        kind="lock",
        profile=profile.name,
        uid=uid,
        findings=tuple(found),
        expected=(),
        coverage=(),
        facts=_numbers(listed, read, env),
        driver_libraries={},
        seconds=round(time.monotonic() - began, 3),
        rules=tuple(rule.id for rule in judged),
        skipped=tuple(skipped),
        distributions=distributions(env),
    )


def _own(listed: Listed, profile: Profile, checkout: Path, offline: bool, skipped: list[Skipped]) -> Iterator[Finding]:
    """The rules of ``orbit lock check``; what cannot be told without network is skipped."""
    assert listed.lock is not None
    folder = listed.path.resolve().parent
    project = read_project(folder)
    yield from run_rules(lock_facts(profile, checkout, listed.lock, project))
    if offline or listed.path.name != "uv.lock":
        reason = (
            "the network is not to be used (--offline)" if offline else "only uv.lock is compared with pyproject.toml"
        )
        skipped.append(Skipped(what="lock-stale", reason=reason))
        return
    try:
        stale = check_fresh(folder, listed.lock, project, command=lock_command(profile))
    except MissingError as error:
        skipped.append(Skipped(what="lock-stale", reason=error.what))
        return
    if stale is not None:
        yield stale


def _settled(finding: Finding, *, own: bool) -> Finding:
    """Two owners of one path: a matter of chance with other installers, not with the one of this checkout."""
    if not own or finding.rule != file_conflict.ID:
        return finding
    how = "orbit env create: the last owner by name, on every machine, and the environment's record names it"
    return msgspec.structs.replace(
        finding, severity=Severity.NOTE, evidence={**finding.evidence, "settled by": how}, fix=""
    )


def _forced(finding: Finding, listed: Listed, *, own: bool) -> Finding:
    """A version that the lock's own override forces was chosen by its makers: a note, with no reason that we know."""
    if own or listed.lock is None or finding.rule != "requirement" or finding.subject not in listed.lock.overrides:
        return finding
    if finding.severity is not Severity.ERROR:
        return finding
    bound = listed.lock.overrides[finding.subject]
    return msgspec.structs.replace(
        finding,
        severity=Severity.NOTE,
        message=f"{finding.message} (forced by the lock's override {finding.subject}{bound})",
        fix="nothing, when the override is meant; say why where it is declared",
    )


def _broken(file: str, why: str) -> Finding:
    return Finding(
        rule="wheel-archive" if file.endswith(".whl") else "lock-sdist",
        severity=Severity.ERROR,
        subject=printable(file),
        message=f"cannot be read: {why}",
        fix="make the lock anew, or find out why the server has another file",
    )


def _unread(listed: Listed, read: Read, count: int) -> Iterator[Skipped]:
    """Files of which nothing is known, by reason."""
    if listed.format == "requirements":
        yield Skipped(
            what=f"the content of {count} packages",
            reason="a requirements file names no files: export a lock (uv export --format pylock.toml)",
        )
    reasons: dict[str, list[str]] = defaultdict(list)
    for file, reason in sorted(read.unread.items()):
        reasons[reason].append(file)
    for reason, files in reasons.items():
        rest = f" and {len(files) - SHOWN} more" if len(files) > SHOWN else ""
        yield Skipped(what=printable(f"{len(files)} of {count} files: {', '.join(files[:SHOWN])}{rest}"), reason=reason)
    bare = [package.name for package in listed.packages if package.source.kind == "git"]
    if bare:
        yield Skipped(
            what=f"{len(bare)} packages from repositories: {', '.join(bare[:SHOWN])}", reason="built from source"
        )


def _not_judged(env: Environment, rules: Collection[str] | None) -> Iterator[Skipped]:
    for rule in RULES.values():
        if rule.id in METADATA_RULES and (rules is None or rule.id in rules):
            continue
        if rules is not None and rule.id not in rules:
            yield Skipped(what=rule.id, reason="not selected (--rule, --skip)")
        elif env.kind in rule.kinds:
            yield Skipped(what=rule.id, reason="needs the content of the wheels: audit them, or the environment")
        else:
            yield Skipped(what=rule.id, reason="says nothing about a lock")


def _numbers(listed: Listed, read: Read, env: Environment) -> dict[str, int]:
    """Numbers of what was looked at. ``fetched_bytes`` is what the network brought."""
    artifacts = [package.wheel or package.sdist for package in listed.packages]
    files = [fact.size for fact in env.tree.entries.values() if fact.is_file]
    return {
        "packages": len(listed.packages),
        "download_bytes": sum(artifact.size for artifact in artifacts if artifact),
        "wheels": len(read.wheels),
        "remembered_wheels": read.remembered,
        "local_wheels": read.local,
        "unread_files": len(read.unread),
        "built": sum(package.built for package in listed.packages) if listed.format != "requirements" else 0,
        "source_archives": len(read.sdists),
        "requests": read.requests,
        "fetched_bytes": read.bytes,
        "distributions": len(env.dists),
        "files": len(files),
        "bytes": sum(files),
        "named_libraries": len(env.objects),
    }
