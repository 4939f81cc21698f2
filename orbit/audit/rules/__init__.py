"""One module per rule: ``ID`` and ``check(env, policy)``, a pure function from facts to findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from orbit.audit.facts import Environment
from orbit.audit.policy import Policy
from orbit.audit.rules import (
    arch_coverage,
    damaged_binary,
    dangling_link,
    expectation,
    file_conflict,
    foreign_extension,
    hollow_package,
    needs_library,
    record_hash,
    symbol_version,
    unreadable,
)
from orbit.core.findings import Finding

type Check = Callable[[Environment, Policy], Iterator[Finding]]

RULES: dict[str, Check] = {
    module.ID: module.check
    for module in (
        damaged_binary,
        arch_coverage,
        symbol_version,
        needs_library,
        foreign_extension,
        record_hash,
        file_conflict,
        hollow_package,
        dangling_link,
        unreadable,
        expectation,
    )
}
"""All rules by id, in the order in which a report shows them: causes before what they bring about."""
