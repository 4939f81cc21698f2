"""Run one rule over one written environment."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

from orbit.audit.archives.wheels import read_wheels
from orbit.audit.facts import Environment
from orbit.audit.installed.environment import read_environment
from orbit.audit.known.policy import Expectations, Policy, load_policy
from orbit.audit.rules import RULES
from orbit.core.console import Silent
from orbit.core.findings import Finding
from orbit.profile.model import load_profile

TODAY = dt.date(2027, 1, 1)


def make_policy(expectations: Expectations | None = None, *, uid: int = 65534) -> Policy:
    """The probe profile's policy (targets h100 and b200) with other expectations."""
    policy = load_policy(load_profile("probe"), uid=uid, today=TODAY)
    return Policy(policy.profile, expectations or Expectations(schema=1), policy.system, uid, TODAY)


def judge(prefix: Path, rule: str, policy: Policy | None = None) -> list[Finding]:
    """Findings of one rule."""
    policy = policy or make_policy()
    return list(RULES[rule].check(read_environment(prefix, policy.profile, Silent()), policy))


def judge_wheels(paths: Path | list[Path], rule: str, policy: Policy | None = None) -> list[Finding]:
    """Findings of one rule over wheels, or folders of them."""
    policy = policy or make_policy()
    given = paths if isinstance(paths, list) else [paths]
    return list(RULES[rule].check(read_wheels(given, policy.profile, Silent()), policy))


def read(prefix: Path) -> Environment:
    """The facts of a written environment."""
    return read_environment(prefix, make_policy().profile, Silent())


def read_as_wheels(prefix: Path) -> Environment:
    """The facts of a written environment as if its distributions were wheels looked at alone."""
    return replace(read(prefix), kind="wheels")
