"""One module per rule: ``ID``, ``TITLE`` and ``check(env, policy)``, a pure function from facts to findings.

A module may also state ``KINDS`` (the kinds of target it can judge; all when not stated). Rules that need the content
of device code are apart, in ``orbit.audit.rules.depth``: they run with ``--deep`` only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType

from orbit.audit.facts import Environment, Kind
from orbit.audit.policy import Policy
from orbit.audit.rules import expectation
from orbit.audit.rules.abi import ABI
from orbit.audit.rules.coverage import COVERAGE
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
