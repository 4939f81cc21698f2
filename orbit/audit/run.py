"""Audit targets: read the facts of each once, run every rule over them, make the report. The only wiring there is.

What reads one kind of target is imported when there is such a target: start-up is a tenth of an audit.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import gc
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from orbit import __version__
from orbit.audit.deep.baseline import make_baseline, read_baseline, write_baseline
from orbit.audit.deep.depth import depth_rows
from orbit.audit.evaluate import evaluate
from orbit.audit.facts import Environment, printable
from orbit.audit.installed.environment import read_environment
from orbit.audit.known.policy import DEFAULT_UID, Policy, load_policy
from orbit.audit.reports.report import AuditReport, DepthLibrary, TargetReport
from orbit.audit.reports.summary import make_report
from orbit.audit.rules import DEPTH_IDS, RULE_IDS, RULES, Rule, depth_rules
from orbit.audit.rules.depth import kernel_baseline
from orbit.audit.targets import Target
from orbit.core.console import Progress, Silent
from orbit.core.findings import Skipped
from orbit.errors import InputError, MissingError
from orbit.profile.lock import read_lock
from orbit.profile.model import Profile


@dataclass(frozen=True, slots=True)
class Options:
    """What one call of the audit was asked for."""

    profile: Profile
    uid: int = DEFAULT_UID
    rules: frozenset[str] = RULE_IDS
    """Ids of the rules that may run."""
    deep: bool = False
    cache: Path | None = None
    """Folder of remembered facts; None: read and hash everything."""
    today: dt.date | None = None
    expectations: tuple[Path, ...] = ()
    """Further files of declared exceptions and waivers."""
    lock: Path | None = None
    """The lock that the targets claim to be an installation of."""
    wheels: tuple[Path, ...] = ()
    """Folders of wheels that a lock's servers need not be asked for."""
    offline: bool = False
    """Ask no server about the wheels of a lock."""
    baseline: Path | None = None
    save_baseline: Path | None = None


def audit_targets(targets: Sequence[Target], options: Options, progress: Progress) -> AuditReport:
    """Audit every target. One that cannot be read does not keep the others from being judged: it is in ``unread``."""
    reports: list[TargetReport] = []
    unread: list[Skipped] = []
    for target in targets:
        try:
            reports += [
                _with_remark(audit_target(part, options, progress), remark)
                for part, remark in parts_of(target, options.profile)
            ]
        except (InputError, MissingError) as error:
            if len(targets) == 1:
                raise
            unread.append(Skipped(what=printable(target.spec), reason=printable(str(error))))
    return AuditReport(orbit=__version__, reports=tuple(reports), unread=tuple(unread))


def parts_of(target: Target, profile: Profile) -> list[tuple[Target, str]]:
    """What is judged apart of a target, each with the reason: wheels that cannot be installed with the others."""
    if target.kind != "wheels" or len(target.paths) == 1:
        return [(target, "")]
    from orbit.audit.archives.wheels import profile_sets

    together, *alone = profile_sets(target.paths, profile)
    parts = [(replace(target, paths=tuple(together.paths)), "")]
    return parts + [(Target("wheels", str(path), (path,)), item.reason) for item in alone for path in item.paths]


def _with_remark(report: TargetReport, remark: str) -> TargetReport:
    if not remark:
        return report
    skipped = Skipped(what="together with the other wheels", reason=printable(remark))
    return msgspec.structs.replace(report, skipped=(*report.skipped, skipped))


def audit_target(target: Target, options: Options, progress: Progress) -> TargetReport:
    """Read one target and judge it.

    Raises :class:`orbit.errors.InputError` when it is not what it claims or the expectations are not valid, and
    :class:`orbit.errors.MissingError` when the engine that holds an image is not there.
    """
    if target.kind == "lock":
        from orbit.audit.locks.lock import audit_lock

        return audit_lock(
            target.paths[0],
            options.profile,
            progress=progress,
            cache=options.cache,
            wheels=options.wheels,
            offline=options.offline,
            uid=options.uid,
            today=options.today,
            rules=options.rules,
            expectations=options.expectations,
        )
    began = time.monotonic()
    policy = load_policy(options.profile, uid=options.uid, today=options.today, extra=options.expectations)
    if options.lock is not None:
        policy = replace(policy, lock=read_lock(options.lock))
    with without_collector():
        env = _read(target, options, progress)
        return judge(env, policy, options, target=target, began=began, progress=progress)


def _read(target: Target, options: Options, progress: Progress) -> Environment:
    """The facts of a target."""
    if target.kind == "environment":
        return read_environment(target.paths[0], options.profile, progress, options.cache)
    if target.kind == "wheels":
        from orbit.audit.archives.wheels import read_wheels

        return read_wheels(target.paths, options.profile, progress)
    from orbit.audit.images.image import read_image

    return read_image(target.spec, options.profile, progress, options.cache)


def audit_environment(
    prefix: Path,
    profile: Profile,
    *,
    uid: int = DEFAULT_UID,
    progress: Progress | None = None,
    today: dt.date | None = None,
    cache: Path | None = None,
) -> TargetReport:
    """Read the environment at ``prefix`` and judge it by ``profile`` for user ``uid``.

    With ``cache`` (a folder) digests of files that have not changed since the last audit are taken from there, and the
    report says how many; without it every file is hashed. Nothing in the environment is executed, imported or changed.

    Raises :class:`orbit.errors.InputError` when the folder is not an environment or the expectations are not valid.
    """
    options = Options(profile, uid=uid, today=today, cache=cache)
    return audit_target(Target("environment", str(prefix), (prefix,)), options, progress or Silent())


def judge(
    env: Environment,
    policy: Policy,
    options: Options,
    *,
    target: Target,
    began: float,
    progress: Progress,
) -> TargetReport:
    """Run the rules that apply and make the report; ``began`` is the monotonic time at which reading started."""
    rules, skipped = select(env, options)
    rows: tuple[DepthLibrary, ...] = ()
    if options.deep:

        def named(path: str) -> str:
            return printable(env.in_site(path))

        from orbit.audit.deep.depth_sources import read_target_depth

        baseline = read_baseline(options.baseline) if options.baseline else None  # refused before the long work
        depth = read_target_depth(target, env, options.profile, progress)
        rows = depth_rows(depth, named)
        if options.save_baseline:
            write_baseline(options.save_baseline, make_baseline(depth, named))
        # before the last rule: whether every declared exception is still true
        rules[-1:-1] = [rule for rule in depth_rules(depth, baseline) if rule.id in options.rules]
    progress.step(f"checking {len(rules)} rules")
    findings = evaluate(env, policy, rules)
    return make_report(
        env,
        policy,
        findings,
        target=target.spec,
        rules=tuple(rule.id for rule in rules),
        skipped=tuple(skipped),
        depth=rows,
        seconds=time.monotonic() - began,
    )


def select(env: Environment, options: Options) -> tuple[list[Rule], list[Skipped]]:
    """(rules that judge this target from its facts, rules that do not and why)."""
    rules: list[Rule] = []
    skipped: list[Skipped] = []
    for rule in RULES.values():
        if rule.id not in options.rules:
            skipped.append(Skipped(what=rule.id, reason="not selected (--rule, --skip)"))
        elif env.kind not in rule.kinds:
            skipped.append(Skipped(what=rule.id, reason=f"says nothing about {env.kind}"))
        else:
            rules.append(rule)
    for name in DEPTH_IDS:
        if name not in options.rules:
            skipped.append(Skipped(what=name, reason="not selected (--rule, --skip)"))
        elif not options.deep:
            skipped.append(Skipped(what=name, reason="reads the kernels themselves: --deep"))
        elif name == kernel_baseline.ID and options.baseline is None:
            skipped.append(Skipped(what=name, reason="there is nothing to compare with (--baseline)"))
    return rules, skipped


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Facts are a million live tuples without cycles; the cyclic collector would walk them again and again (0.5 s)."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
