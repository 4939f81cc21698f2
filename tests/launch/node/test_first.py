"""Node 0 and the sum over all GPUs: who is asked, whose word counts, what ends the job."""

from __future__ import annotations

import asyncio
import types
from typing import Any

import pytest

from orbit.errors import ExitCode
from orbit.launch.node.first import First
from orbit.launch.node.here import Over, Told, free_port
from orbit.launch.node.meeting.host import Lost
from orbit.launch.node.meeting.messages import Across, Message, Summed
from orbit.launch.node.options import Order
from orbit.launch.preflight.model import Check, State

GOOD = Check(name="all-reduce-across", state=State.PASSED, message="2 nodes: 16 ranks")
BAD = Check(name="all-reduce-across", state=State.FAILED, message="sums are wrong", fix="look at the cables")


class Host:
    """Of the meeting: what was said, what is heard."""

    def __init__(self, *events: tuple[int, Any]) -> None:
        self.said: list[tuple[int, Message]] = []
        self.members = {1: types.SimpleNamespace(here="127.0.0.1"), 3: types.SimpleNamespace(here="127.0.0.1")}
        self.events: asyncio.Queue[tuple[int, Any]] = asyncio.Queue()
        for event in events:
            self.events.put_nowait(event)

    def say(self, rank: int, message: Message) -> None:
        """Keep it."""
        self.said.append((rank, message))


class Here:
    """Of this node: its order, and what it sees of the sum."""

    def __init__(self, own: Check, gpus: int = 8) -> None:
        self.order = Order(name="demo", image="sha256:" + "ab" * 32, nodes=4, gpus=gpus, command=("true",))
        self.own = own
        self.asked: list[Across] = []
        self.lines: list[str] = []
        self.say = types.SimpleNamespace(step=self.lines.append)

    async def across(self, where: Across) -> Check:
        """After a moment, as it is in life."""
        self.asked.append(where)
        await asyncio.sleep(0.01)
        return self.own


def summed(here: Here, *events: tuple[int, Any]) -> Host:
    """Nodes 0, 1 and 3 go on, and these events come."""

    async def live() -> Host:
        host = Host(*events)
        first = First(here, host, fit={0, 1, 3})  # type: ignore[arg-type]
        await first._sum()
        return host

    return asyncio.run(live())


def test_every_node_that_goes_on_is_given_its_place() -> None:
    here = Here(GOOD)
    host = summed(here, (1, Summed(check=GOOD)), (3, Summed(check=GOOD)))
    own = here.asked[0]
    assert (own.node, own.nodes) == (0, 3)
    assert host.said == [
        (rank, Across(address=own.address, port=own.port, node=node, nodes=3)) for rank, node in ((1, 1), (3, 2))
    ]
    assert here.lines == [GOOD.message]


def test_one_node_that_saw_it_fail_stops_the_job_with_what_to_do() -> None:
    with pytest.raises(Over) as caught:
        summed(Here(GOOD), (3, Summed(check=BAD)), (1, Summed(check=GOOD)))
    outcome = caught.value.outcome
    assert outcome.status == ExitCode.FINDINGS
    assert "sums are wrong" in outcome.reason
    assert "look at the cables" in outcome.reason
    assert "seen by node 3" in outcome.reason


def test_what_this_node_saw_counts_as_well() -> None:
    with pytest.raises(Over, match="seen by node 0"):
        summed(Here(BAD), (1, Summed(check=GOOD)), (3, Summed(check=GOOD)))


def test_a_node_that_is_lost_meanwhile_ends_it() -> None:
    with pytest.raises(Over, match="node 3 is lost") as caught:
        summed(Here(GOOD), (1, Summed(check=GOOD)), (3, Lost(why="no sign of life")))
    assert caught.value.outcome.status == ExitCode.MISSING


def test_a_signal_meanwhile_ends_it() -> None:
    with pytest.raises(Over) as caught:
        summed(Here(GOOD), (0, Told(15)))
    assert caught.value.outcome.status == 143


def test_without_gpus_nobody_is_asked() -> None:
    here = Here(GOOD, gpus=0)
    assert summed(here).said == []
    assert here.asked == []


def test_a_free_port_can_be_listened_on() -> None:
    import socket

    with socket.create_server(("127.0.0.1", free_port("127.0.0.1"))) as server:
        assert server.getsockname()[1] > 1023
