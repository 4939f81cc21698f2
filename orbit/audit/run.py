"""Audit targets: read the facts of each once, run every rule over them, make the report. The only wiring there is."""

from __future__ import annotations

import contextlib
import datetime as dt
import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from orbit.audit.environment import read_environment
from orbit.audit.evaluate import evaluate
from orbit.audit.facts import Environment
from orbit.audit.policy import DEFAULT_UID, Policy, load_policy
from orbit.audit.report import TargetReport
from orbit.audit.rules import RULES, Rule
from orbit.audit.summary import make_report
from orbit.core.console import Progress, Silent
from orbit.core.findings import Skipped
from orbit.profile.model import Profile


@dataclass(frozen=True, slots=True)
class Options:
    """What one call of the audit was asked for."""

    profile: Profile
    uid: int = DEFAULT_UID
    rules: frozenset[str] = field(default_factory=lambda: frozenset(RULES))
    """Ids of the rules that may run."""
    deep: bool = False
    cache: Path | None = None
    """Folder of remembered facts; None: read and hash everything."""
    today: dt.date | None = None


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
    progress = progress or Silent()
    began = time.monotonic()
    policy = load_policy(profile, uid=uid, today=today)
    with without_collector():
        env = read_environment(prefix, profile, progress, cache)
        return judge(env, policy, options, target=str(env.layout.prefix), began=began, progress=progress)


def judge(
    env: Environment, policy: Policy, options: Options, *, target: str, began: float, progress: Progress
) -> TargetReport:
    """Run the rules that apply and make the report; ``began`` is the monotonic time at which reading started."""
    rules, skipped = select(env, options)
    progress.step(f"checking {len(rules)} rules")
    findings = evaluate(env, policy, rules)
    return make_report(
        env,
        policy,
        findings,
        target=target,
        rules=tuple(rule.id for rule in rules),
        skipped=skipped,
        seconds=time.monotonic() - began,
    )


def select(env: Environment, options: Options) -> tuple[tuple[Rule, ...], tuple[Skipped, ...]]:
    """(rules that judge this target, rules that do not and why)."""
    rules: list[Rule] = []
    skipped: list[Skipped] = []
    for rule in RULES.values():
        if rule.id not in options.rules:
            skipped.append(Skipped(what=rule.id, reason="not selected (--rule, --skip)"))
        elif env.kind not in rule.kinds:
            skipped.append(Skipped(what=rule.id, reason=f"says nothing about {env.kind}"))
        else:
            rules.append(rule)
    return tuple(rules), tuple(skipped)


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
