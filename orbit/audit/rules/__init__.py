"""One module per rule: ``ID``, ``TITLE`` and ``check(env, policy)``, a pure function from facts to findings.

A module may also state ``KINDS`` (the kinds of target it can judge; all when not stated). Rules of
``orbit.audit.rules.depth`` judge the content of device code as well: they run with ``--deep`` only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType

from orbit.audit.deep.baseline import Baseline, diff_baselines, make_baseline
from orbit.audit.deep.depth import Depth
from orbit.audit.facts import Environment, Kind, printable
from orbit.audit.known.policy import Policy
from orbit.audit.rules import expectation
from orbit.audit.rules.abi import ABI
from orbit.audit.rules.coverage import COVERAGE
from orbit.audit.rules.depth import DEPTH, kernel_baseline
from orbit.audit.rules.integrity import INTEGRITY
from orbit.audit.rules.loading import LOADING
from orbit.audit.rules.provenance import PROVENANCE
from orbit.audit.rules.settings import SETTINGS
from orbit.core.findings import Finding

type Check = Callable[[Environment, Policy], Iterator[Finding]]

ALL_KINDS: frozenset[Kind] = frozenset(("environment", "image", "wheels"))


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the audit."""

    id: str
    """Stable; docs/rules/<id>.md is its page."""
    title: str
    """What holds when the rule finds nothing, in one line."""
    kinds: frozenset[Kind]
    """What it can judge."""
    check: Check


def rule_of(module: ModuleType) -> Rule:
    """The rule that a module defines."""
    return Rule(module.ID, module.TITLE, getattr(module, "KINDS", ALL_KINDS), module.check)


RULES: dict[str, Rule] = {
    module.ID: rule_of(module)
    for module in (*INTEGRITY, *COVERAGE, *LOADING, *ABI, *PROVENANCE, *SETTINGS, expectation)
}
"""All rules by id, in the order in which a report shows them: causes before what they bring about."""

DEPTH_IDS: tuple[str, ...] = (*(module.ID for module in DEPTH), kernel_baseline.ID)
"""Rules that need ``--deep``."""
RULE_IDS: frozenset[str] = frozenset((*RULES, *DEPTH_IDS))
TITLES: dict[str, str] = {rule.id: rule.title for rule in RULES.values()} | {
    module.ID: module.TITLE for module in (*DEPTH, kernel_baseline)
}
"""What holds when a rule is silent, by rule id."""


def depth_rules(depth: Depth, baseline: Baseline | None) -> tuple[Rule, ...]:
    """The rules over what ``--deep`` has read, ready to judge; the comparison only with a baseline."""

    def bound(module: ModuleType) -> Check:
        return lambda env, policy: module.check(env, policy, depth)

    rules = [Rule(module.ID, module.TITLE, ALL_KINDS, bound(module)) for module in DEPTH]
    if baseline is not None:

        def compared(env: Environment, _policy: Policy) -> Iterator[Finding]:
            found = make_baseline(depth, lambda path: printable(env.in_site(path)))
            return kernel_baseline.compare(diff_baselines(baseline, found))

        rules.append(Rule(kernel_baseline.ID, kernel_baseline.TITLE, ALL_KINDS, compared))
    return tuple(rules)
