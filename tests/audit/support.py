"""Run one rule over one written environment."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from orbit.audit.environment import read_environment
from orbit.audit.policy import Expectations, Policy, load_policy
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
