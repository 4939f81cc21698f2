"""crowd, ranges and table: many reports become one decision, and a page that people can read."""

from __future__ import annotations

import itertools

import pytest

from orbit.launch.fingerprint.model import Fingerprint, Library
from orbit.launch.preflight.crowd import JobRules, decide, grouped
from orbit.launch.preflight.model import NodeReport, State
from orbit.launch.preflight.ranges import compress, ranks_of, spans
from orbit.launch.preflight.say import failed, line, passed, size, skipped, warned
from orbit.launch.preflight.table import WIDTH, render
from tests.launch.preflight.made import report

SMALL = failed("shared-memory", "/dev/shm holds 64 MiB, 16 GiB are needed", "docker: --shm-size=16g")
GOOD = passed("shared-memory", "/dev/shm holds 16 GiB")
HERE = Fingerprint(image="sha256:aa", interpreter="3.12.8 sha256:1")
OTHER = Fingerprint(image="sha256:bb", interpreter="3.12.9 sha256:2")
LEAVE = JobRules(nodes=4, unfit="leave-out", least=3)


def nodes(*bad: int, count: int = 4) -> list[NodeReport]:
    return [report(rank, SMALL if rank in bad else GOOD) for rank in range(count)]


# --- the decision -----------------------------------------------------------------------------------------------------


def test_all_fit() -> None:
    verdict = decide(nodes(), JobRules(nodes=4))
    assert (verdict.go, verdict.ranks, verdict.reason) == (True, (0, 1, 2, 3), "all 4 nodes are fit")
    assert verdict.reason_of(2) == ""


def test_one_unfit_stops_a_job_that_leaves_nobody_out() -> None:
    verdict = decide(nodes(2), JobRules(nodes=4))
    assert (verdict.go, verdict.ranks) == (False, ())
    assert "3 of 4 nodes can take part, 4 are needed: 1 unfit" in verdict.reason
    assert verdict.reason_of(2) == SMALL.message
    assert verdict.reason_of(1) == verdict.reason


def test_one_unfit_is_left_out_where_the_job_allows() -> None:
    verdict = decide(nodes(2), LEAVE)
    assert (verdict.go, verdict.ranks) == (True, (0, 1, 3))
    assert verdict.reason == "3 of 4 nodes go on, without gpu-002"


def test_too_few_are_left() -> None:
    verdict = decide(nodes(2, 3), LEAVE)
    assert not verdict.go
    assert "2 of 4 nodes can take part, 3 are needed: 2 unfit" in verdict.reason


def test_leave_out_without_a_number_needs_all() -> None:
    assert not decide(nodes(2), JobRules(nodes=4, unfit="leave-out")).go


def test_the_first_node_must_be_fit() -> None:
    verdict = decide(nodes(0), LEAVE)
    assert not verdict.go
    assert verdict.reason.startswith("the first node (gpu-000) is unfit")
    assert not decide([report(1, GOOD)], JobRules(nodes=2, unfit="leave-out", least=1)).go


def test_missing_nodes_are_named() -> None:
    verdict = decide(nodes()[:2], JobRules(nodes=4))
    assert verdict.missing == (2, 3)
    assert "2 missing (ranks 2-3)" in verdict.reason
    assert decide(nodes()[:3], LEAVE).ranks == (0, 1, 2)


def test_two_nodes_of_one_rank() -> None:
    assert "rank 1" in decide([report(0, GOOD), report(1, GOOD), report(1, GOOD)], JobRules(nodes=2)).reason


def prints(*of: Fingerprint | None) -> list[NodeReport]:
    return [report(rank, GOOD, fingerprint=one) for rank, one in enumerate(of)]


def test_another_image_is_left_out_with_the_difference() -> None:
    verdict = decide(prints(HERE, HERE, HERE, OTHER), LEAVE)
    assert verdict.ranks == (0, 1, 2)
    assert verdict.left[0].reasons == ("something else runs there than on the first node: image, interpreter",)
    assert any("sha256:bb" in text for text in verdict.differences)
    assert not decide(prints(HERE, HERE, HERE, OTHER), JobRules(nodes=4)).go


def test_the_first_node_is_the_odd_one() -> None:
    verdict = decide(prints(OTHER, HERE, HERE, HERE), JobRules(nodes=4, unfit="leave-out", least=1))
    assert not verdict.go
    assert "seems to be the odd one" in verdict.reason


def test_a_node_without_a_fingerprint() -> None:
    assert decide(prints(HERE, HERE, HERE, None), LEAVE).ranks == (0, 1, 2)
    assert decide(prints(None, None, None, None), LEAVE).ranks == (0, 1, 2, 3)


def test_drivers_may_differ() -> None:
    one = Fingerprint(
        interpreter="3", driver="580", libraries=(Library(name="c", path="/c", sha256="1", inside=False),)
    )
    other = Fingerprint(interpreter="3", driver="590")
    assert decide(prints(one, other), JobRules(nodes=2)).go


def test_every_case_of_four_nodes() -> None:
    """Whoever goes on is fit, there and like the first one; and never fewer than are enough."""
    for states in itertools.product(("fit", "unfit", "odd", "missing"), repeat=4):
        made = [
            report(rank, SMALL if state == "unfit" else GOOD, fingerprint=OTHER if state == "odd" else HERE)
            for rank, state in enumerate(states)
            if state != "missing"
        ]
        for rules in (JobRules(nodes=4), LEAVE, JobRules(nodes=4, unfit="leave-out", least=1)):
            verdict = decide(made, rules)
            first = states[0]
            alike = [rank for rank, state in enumerate(states) if state == first and state != "missing"]
            assert set(verdict.ranks) <= set(alike)
            assert verdict.go is bool(verdict.ranks)
            assert not verdict.go or (0 in verdict.ranks and len(verdict.ranks) >= rules.enough)
            assert verdict.go or verdict.reason
            assert {each.rank for each in verdict.left}.isdisjoint(verdict.ranks)


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        (["gpu-001", "gpu-002", "gpu-003", "gpu-007"], "gpu-[001-003,007]"),
        (["n9", "n10", "n11"], "n[9-11]"),
        (["n099", "n100"], "n[099-100]"),
        (["a", "b", "b"], "a, b"),
        (["n1.x", "n2.x", "n1.y"], "n1.y, n[1-2].x"),
        ([], ""),
        (["7"], "7"),
    ],
)
def test_hosts(hosts: list[str], text: str) -> None:
    assert compress(hosts) == text


def test_numbers() -> None:
    assert (ranks_of([7]), ranks_of([3, 1, 2, 9]), spans([])) == ("rank 7", "ranks 1-3,9", "")


# --- the page ---------------------------------------------------------------------------------------------------------


def test_one_node() -> None:
    text = render([report(0, GOOD, SMALL, skipped("rdma", "not asked for"))])
    assert "1 node, 0 fit, 1 unfit" in text
    assert "what /dev/shm holds 64 MiB, 16 GiB are needed" in text
    assert "fix  docker: --shm-size=16g" in text
    assert "skipped: rdma: not asked for" in text


def test_a_few_nodes_have_a_line_each() -> None:
    made = nodes(2)
    text = render(made, decide(made, LEAVE))
    assert "GO: 3 of 4 nodes go on, without gpu-002" in text
    assert text.index("unfit: shared-memory") < text.index("rank  host"), "reasons come first"
    assert len([row for row in text.splitlines() if row.lstrip()[:1].isdigit()]) == 4


def test_a_thousand_nodes_are_few_lines() -> None:
    made = [
        report(rank, failed("scratch-room", f"/s has {rank} GiB free, 2000 GiB are needed", "delete something"),
               warned("rdma", "TCP", "mount it"))
        if rank % 10 == 9 else report(rank, GOOD, warned("rdma", "TCP", "mount it"))
        for rank in range(1000)
        if rank not in (500, 501)
    ]  # fmt: skip
    text = render(made, decide(made, JobRules(nodes=1000, unfit="leave-out", least=800)))
    assert len(text.splitlines()) < 60
    assert all(len(row) <= WIDTH for row in text.splitlines())
    assert "unfit: scratch-room, 100 nodes" in text
    assert "missing: 2 nodes" in text
    assert "rank [500-501]" in text
    assert "note: rdma, 998 nodes" in text


def test_differences_are_shown() -> None:
    made = prints(HERE, HERE, HERE, OTHER)
    text = render(made, decide(made, LEAVE))
    assert "not the same on all nodes:" in text
    assert all(len(row) <= WIDTH for row in text.splitlines())


def test_a_reason_is_one_whatever_its_numbers() -> None:
    made = [report(rank, failed("a", f"holds {rank} MiB", "x")) for rank in range(12)]
    assert [(row[1], len(row[3])) for row in grouped(made, State.FAILED)] == [("holds 0 MiB", 12)]


def test_words() -> None:
    assert [size(count) for count in (5, 65536, 64 << 20, 3 << 29, 2 << 40)] == [
        "5 bytes", "64 KiB", "64 MiB", "1.5 GiB", "2 TiB",
    ]  # fmt: skip
    assert line(SMALL) == "/dev/shm holds 64 MiB, 16 GiB are needed; fix: docker: --shm-size=16g"
