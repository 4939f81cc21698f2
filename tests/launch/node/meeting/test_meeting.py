"""Nodes meet: a thousand of them, strangers, copies, half-open connections, ends that nobody announced."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any

import pytest

from orbit.errors import MissingError, RefusedError
from orbit.launch.node.meeting.guest import Guest, TurnedAway
from orbit.launch.node.meeting.host import Host, Lost
from orbit.launch.node.meeting.messages import (
    MESSAGE_BYTES,
    PROTOCOL,
    STRANGER_BYTES,
    Answer,
    Bring,
    Challenge,
    End,
    Gone,
    Hello,
    Joined,
    Message,
    NotOurs,
    Trouble,
    encode,
    receive,
)
from orbit.launch.node.meeting.proof import fresh_nonce, prove, public_name
from orbit.launch.node.meeting.times import Times

TOKEN, OTHER = bytes(32), bytes([1] * 32)
QUICK = Times(lost=1.2, handshake=5.0, retry=0.1)
PATIENT = Times(lost=120.0, handshake=60.0, retry=0.5)


def go(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 120))


def guest(port: int, rank: int = 1, token: bytes = TOKEN, times: Times = QUICK, **more: Any) -> Guest:
    return Guest(token, rank, lambda: [("127.0.0.1", port)], times, **more)


@contextlib.asynccontextmanager
async def hosting(nodes: int, times: Times = QUICK, ports: Sequence[int] = ()) -> AsyncIterator[Host]:
    host = Host(TOKEN, nodes, times)
    await host.open(ports)
    try:
        yield host
    finally:
        await host.close()


def test_words_arrive_both_ways_in_order() -> None:
    async def work() -> None:
        async with hosting(2) as host:
            one = guest(host.port)
            await one.meet(10)
            one.say(Joined(node_id="a"))
            one.say(Gone())
            assert await host.events.get() == (1, Joined(node_id="a"))
            assert await host.events.get() == (1, Gone())
            host.say(1, Bring(address="h:1"))
            assert await one.events.get() == Bring(address="h:1")
            assert (one.here, one.there, one.attempt) == ("127.0.0.1", "127.0.0.1", host.attempt)
            asked, theirs, answered = one.skew
            assert asked <= theirs <= answered
            await one.close()

    go(work())


def test_a_thousand_nodes_meet() -> None:
    count = 1000

    async def work() -> None:
        async with hosting(count + 1, PATIENT) as host:
            guests = [guest(host.port, rank, times=PATIENT) for rank in range(1, count + 1)]
            await asyncio.gather(*(one.meet(100) for one in guests))
            assert len(host.members) == count
            for one in guests:
                one.say(Joined(node_id=str(one.rank)))
            heard = {await host.events.get() for _ in range(count)}
            assert heard == {(rank, Joined(node_id=str(rank))) for rank in range(1, count + 1)}
            for rank in host.members:
                host.say(rank, End(status=0, reason="enough"))
            for one in guests:
                assert await one.events.get() == End(status=0, reason="enough")
            await asyncio.gather(*(one.close() for one in guests))

    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 2 * count + 200:
        pytest.skip("too few open files are allowed here")
    old = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (old[1], old[1]))
    try:
        go(work())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, old)


def test_a_taken_port_is_passed_over_and_a_neighbours_is_not_ours() -> None:
    async def work() -> None:
        neighbour = Host(OTHER, 2, QUICK)
        theirs = await neighbour.open(())
        with socket.create_server(("127.0.0.1", 0)) as squatter:
            mute = squatter.getsockname()[1]
            async with hosting(2, ports=(theirs, mute, 0)) as host:
                assert host.port not in (theirs, mute)
                quick = Times(lost=1.2, handshake=0.5, retry=0.1)
                places = [("127.0.0.1", theirs), ("127.0.0.1", mute), ("127.0.0.1", host.port)]
                one = Guest(TOKEN, 1, lambda: places, quick)
                await one.meet(20)
                assert one.attempt == host.attempt
                assert one.tried == {
                    f"127.0.0.1:{theirs}": "somebody else listens there",
                    f"127.0.0.1:{mute}": "no answer",
                }
                assert neighbour.members == {}
                await one.close()
            with pytest.raises(RefusedError, match=f"{theirs}, {mute}"):
                await Host(TOKEN, 2, QUICK).open((theirs, mute))
        await neighbour.close()

    go(work())


def test_who_has_not_the_token_learns_nothing_and_is_not_let_in() -> None:
    async def work() -> None:
        async with hosting(3) as host:
            with pytest.raises(MissingError, match="somebody else listens"):
                await guest(host.port, token=OTHER).meet(0.5)
            # one that knows the public name of the job, which is no secret, and sends the host's own proof back
            for replays in (True, False):
                reader, writer = await asyncio.open_connection("127.0.0.1", host.port)
                nonce = fresh_nonce()
                writer.write(encode(Hello(protocol=PROTOCOL, job=public_name(TOKEN), nonce=nonce)))
                challenge = await receive(reader, STRANGER_BYTES)
                assert isinstance(challenge, Challenge)
                made = prove(OTHER, "node", challenge.nonce, nonce, "1", "x", "")
                writer.write(encode(Answer(proof=challenge.proof if replays else made, rank=1, life="x")))
                assert await reader.read() == b""
                writer.close()
            assert host.members == {}

    go(work())


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\2{]",
        b"\xff\xff\xff\xff",
        b"\0\0\0\x40half",
        encode(Gone()),
        b"\0\0\0\0",
    ],
)
def test_what_is_no_message_ends_the_connection_alone(sent: bytes) -> None:
    async def work() -> None:
        async with hosting(2, Times(lost=1.2, handshake=0.5, retry=0.1)) as host:
            reader, writer = await asyncio.open_connection("127.0.0.1", host.port)
            writer.write(sent)
            with contextlib.suppress(ConnectionError):  # closed before all was read
                assert await reader.read() == b""  # a half-open one: after the time for proofs
            writer.close()
            one = guest(host.port)
            await one.meet(10)
            assert list(host.members) == [1]
            await one.close()

    go(work())


def test_a_second_node_of_a_rank_is_turned_away_and_one_out_of_range() -> None:
    async def work() -> None:
        async with hosting(3) as host:
            one = guest(host.port)
            await one.meet(10)
            for rank, said in ((1, "is taken"), (3, "is not one of"), (0, "is not one of")):
                with pytest.raises(TurnedAway, match=said):
                    await guest(host.port, rank).meet(10)
            host.closed = "the job has begun without it"
            with pytest.raises(TurnedAway, match="begun without it") as caught:
                await guest(host.port, 2).meet(10)
            assert caught.value.code == 3
            with pytest.raises(TurnedAway, match="earlier attempt"):
                await guest(host.port, 1, attempt=fresh_nonce()).meet(10)
            await one.close()

    go(work())


def test_a_broken_connection_is_made_again_and_nothing_is_lost_or_heard_twice() -> None:
    async def work() -> None:
        async with hosting(2, Times(lost=20, handshake=5, retry=0.1)) as host:
            one = guest(host.port, times=Times(lost=20, handshake=5, retry=0.1))
            await one.meet(10)
            one.say(Joined(node_id="a"))
            assert await host.events.get() == (1, Joined(node_id="a"))
            writer = host.members[1].writer
            assert writer is not None
            writer.transport.abort()
            await asyncio.sleep(0)
            one.say(Trouble(reason="late"))
            host.say(1, Bring(address="h:1"))
            assert await host.events.get() == (1, Trouble(reason="late"))
            assert await one.events.get() == Bring(address="h:1")
            assert host.events.empty()
            assert one.events.empty()
            await one.close()

    go(work())


def test_a_node_that_falls_silent_is_lost_and_does_not_come_back() -> None:
    async def work() -> None:
        async with hosting(2) as host:
            one = guest(host.port)
            await one.meet(10)
            for task in one._tasks:  # it neither speaks nor ends its connection: a cable that was pulled
                task.cancel()
            rank, event = await host.events.get()
            assert rank == 1
            assert isinstance(event, Lost)
            with pytest.raises(TurnedAway, match="given up"):
                await one.meet(10)
            await one.close()

    go(work())


def test_the_first_nodes_end_is_noticed() -> None:
    async def work() -> None:
        async with hosting(2) as host:
            one = guest(host.port)
            await one.meet(10)
        event = await one.events.get()
        assert isinstance(event, Lost)
        assert "not found" in event.why
        await one.close()

    go(work())


def test_the_first_nodes_silence_is_noticed() -> None:
    async def work() -> None:
        async with hosting(2) as host:
            one = guest(host.port)
            await one.meet(10)
            assert host._watch is not None
            host._watch.cancel()
            assert host._server is not None
            host._server.close()
            assert isinstance(await one.events.get(), Lost)
            await one.close()

    go(work())


def test_a_node_waits_for_a_first_one_that_is_late() -> None:
    async def work() -> None:
        with socket.create_server(("127.0.0.1", 0)) as place:
            port = place.getsockname()[1]
        one = guest(port)
        meeting = asyncio.create_task(one.meet(30))
        await asyncio.sleep(0.5)
        assert not meeting.done()
        async with hosting(2, ports=(port,)):
            await meeting
            await one.close()

    go(work())


def test_where_the_first_node_was_looked_for_is_told() -> None:
    async def work() -> None:
        one = Guest(TOKEN, 1, lambda: [("no-such-host.invalid", 1), ("127.0.0.1", 1)], QUICK)
        with pytest.raises(MissingError) as caught:
            await one.meet(0.3)
        assert "no-such-host.invalid:1" in caught.value.what
        assert "127.0.0.1:1: " in caught.value.what
        with pytest.raises(MissingError, match="said nowhere yet"):
            await Guest(TOKEN, 1, list, QUICK).meet(0.3)

    go(work())


@pytest.mark.parametrize(
    "message", [End(status=7, reason="x", failed=True), Joined(node_id="a"), Hello(protocol="p", job="j", nonce="n")]
)
def test_a_message_is_read_as_it_was_written(message: Message) -> None:
    async def work() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(encode(message))
        assert await receive(reader, MESSAGE_BYTES) == message
        reader.feed_data(encode(message))
        with pytest.raises(NotOurs, match="at most 8"):
            await receive(reader, 8)

    go(work())


def test_messages_of_unknown_kind_or_with_unknown_fields_are_refused() -> None:
    async def work() -> None:
        for data in (b'{"kind":"root"}', b'{"kind":"gone","x":1}', b'{"kind":"end","status":"x","reason":""}'):
            reader = asyncio.StreamReader()
            reader.feed_data(len(data).to_bytes(4) + data)
            with pytest.raises(NotOurs):
                await receive(reader, MESSAGE_BYTES)

    go(work())
