"""From the reports of all nodes to one decision: who goes on, who is left out, or why the job stops. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from orbit.core.records import Record
from orbit.launch.fingerprint.compare import differences
from orbit.launch.fingerprint.model import Fingerprint, must_agree
from orbit.launch.preflight.model import NodeReport, State
from orbit.launch.preflight.ranges import compress, ranks_of

MOST_NAMES = 200
"""Characters of host names in one sentence."""
NUMBER = re.compile(r"\d+(?:\.\d+)?")


class JobRules(Record, frozen=True, kw_only=True):
    """What the job says of unfit nodes."""

    nodes: int = 1
    unfit: Literal["stop", "leave-out"] = "stop"
    least: int = 0
    """With ``leave-out``: nodes that are enough; 0: all."""

    @property
    def enough(self) -> int:
        """Nodes without which the job does not go on."""
        return self.least if self.unfit == "leave-out" and self.least else self.nodes


class Left(Record, frozen=True, kw_only=True):
    """A node that does not take part."""

    rank: int
    host: str
    """Empty for one that never came."""
    reasons: tuple[str, ...]


class Verdict(Record, frozen=True, kw_only=True):
    """The decision."""

    go: bool
    reason: str
    """Why the job stops, or what it goes on with: one sentence."""
    ranks: tuple[int, ...]
    """Who takes part; empty when the job stops."""
    left: tuple[Left, ...] = ()
    """Who does not, or would not, with the reasons."""
    missing: tuple[int, ...] = ()
    """Ranks that did not come in time."""
    differences: tuple[str, ...] = ()
    """What differs between fingerprints, a line for each field."""

    def reason_of(self, rank: int) -> str:
        """What to tell the node ``rank``; empty when it goes on."""
        if rank in self.ranks:
            return ""
        own = next((each.reasons for each in self.left if each.rank == rank), ())
        return "; ".join(own) or self.reason


def decide(reports: Sequence[NodeReport], rules: JobRules) -> Verdict:
    """Judge the nodes that came. The first node (rank 0) runs the command, so the job cannot go on without it, and what
    runs there is what the others are compared with."""
    by_rank = {report.rank: report for report in reports}
    twice = [rank for rank, count in Counter(report.rank for report in reports).items() if count > 1]
    missing = tuple(rank for rank in range(rules.nodes) if rank not in by_rank)
    odd = _odd(by_rank)
    left = [Left(rank=rank, host="", reasons=("it did not come in time",)) for rank in missing]
    for rank, report in sorted(by_rank.items()):
        reasons = (*report.reasons, *((odd[rank],) if rank in odd else ()))
        if reasons:
            left.append(Left(rank=rank, host=report.host, reasons=reasons))
    out = {each.rank for each in left}
    going = tuple(rank for rank in sorted(by_rank) if rank not in out and rank < rules.nodes)
    problem = _problem(by_rank, rules, missing, odd, going)
    if twice:
        problem = f"two nodes say that they are rank {twice[0]}: each needs its own (--rank)"
    return Verdict(
        go=not problem,
        reason=problem or _going(rules, going, left),
        ranks=() if problem else going,
        left=tuple(sorted(left, key=lambda each: each.rank)),
        missing=missing,
        differences=_differences(by_rank) if odd else (),
    )


def _odd(by_rank: Mapping[int, NodeReport]) -> dict[int, str]:
    """Nodes on which something else runs than on the first one."""
    first = by_rank[0].fingerprint if 0 in by_rank else None
    if first is None:
        return {}
    found = {}
    known: dict[str, str] = {}
    for rank, report in by_rank.items():
        one = report.fingerprint
        if one is None:
            found[rank] = "it says nothing of what runs there (no fingerprint), and the first node does"
        elif one.agreed != first.agreed:
            if one.agreed not in known:
                known[one.agreed] = _against(first, one)
            found[rank] = known[one.agreed]
    return found


def _against(first: Fingerprint, one: Fingerprint) -> str:
    wanted, here = must_agree(first), must_agree(one)
    names = [name for name in wanted if wanted[name] != here[name]]
    return f"something else runs there than on the first node: {', '.join(names)}"


def _differences(by_rank: Mapping[int, NodeReport]) -> tuple[str, ...]:
    return differences((each.host, each.fingerprint) for _, each in sorted(by_rank.items()) if each.fingerprint)


def _problem(
    by_rank: Mapping[int, NodeReport],
    rules: JobRules,
    missing: Sequence[int],
    odd: Mapping[int, str],
    going: Sequence[int],
) -> str:
    """Why the job stops; empty when it goes on."""
    if 0 not in by_rank:
        return "the first node (rank 0) did not come"
    first = by_rank[0]
    if not first.fit:
        return f"the first node ({first.host}) is unfit, and the command would run there: {'; '.join(first.reasons)}"
    if len(odd) > len(by_rank) - len(odd):
        return (
            f"on {len(odd)} of {len(by_rank)} nodes something else runs than on the first one ({first.host}), which "
            "seems to be the odd one: use one image by digest everywhere"
        )
    if len(going) >= rules.enough:
        return ""
    counts = [
        (sum(not report.fit for report in by_rank.values()), "unfit"),
        (len([rank for rank in odd if by_rank[rank].fit]), "with something else running"),
        (len(missing), f"missing ({ranks_of(missing)})"),
    ]
    told = ", ".join(f"{count} {what}" for count, what in counts if count)
    firm = "" if rules.unfit == "leave-out" else " (unfit nodes are not left out: unfit = 'stop')"
    return f"{len(going)} of {rules.nodes} nodes can take part, {rules.enough} are needed: {told}{firm}"


def _going(rules: JobRules, going: Sequence[int], left: Sequence[Left]) -> str:
    if not left:
        return f"all {len(going)} nodes are fit" if len(going) > 1 else "the node is fit"
    hosts = compress([each.host or f"rank {each.rank}" for each in left])
    told = hosts if len(hosts) <= MOST_NAMES else f"{len(left)} others"
    return f"{len(going)} of {rules.nodes} nodes go on, without {told}"


def grouped(reports: Sequence[NodeReport], state: State) -> list[tuple[str, str, str, tuple[NodeReport, ...]]]:
    """Checks in ``state``, the same reason together: name, message and fix of the first node, all nodes that have it.

    The most frequent come first. Messages that differ in numbers alone are one reason.
    """
    found: dict[tuple[str, str], tuple[str, str, list[NodeReport]]] = {}
    for report in reports:
        for check in report.checks:
            if check.state is state:
                key = check.name, NUMBER.sub("#", check.message)
                found.setdefault(key, (check.message, check.fix, []))[2].append(report)
    rows = [(name, message, fix, tuple(who)) for (name, _), (message, fix, who) in found.items()]
    return sorted(rows, key=lambda row: (-len(row[3]), row[0]))
