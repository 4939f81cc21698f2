"""The first node's side of the meeting: it listens, tells its own from strangers, and notices who is gone."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from orbit.errors import RefusedError
from orbit.launch.node.meeting.messages import (
    MESSAGE_BYTES,
    PROTOCOL,
    STRANGER_BYTES,
    Answer,
    Beat,
    Challenge,
    Hello,
    Message,
    NotOurs,
    Refused,
    Said,
    Welcome,
    encode,
    receive,
)
from orbit.launch.node.meeting.proof import fresh_nonce, holds, prove, public_name
from orbit.launch.node.meeting.times import Times

BACKLOG = 2048
STRANGERS = 4096
"""Connections that have not proven anything yet; more are closed at once."""
LATE_STATUS = 3
QUEUE_BYTES = 64 << 20
"""Unsent to one node: it does not read any more."""


@dataclass(slots=True)
class Member:
    """A node that has proven itself."""

    rank: int
    life: str
    address: str
    """The node's address as seen here."""
    here: str
    """This node's address as that one reached it."""
    writer: asyncio.StreamWriter | None
    heard: float
    """When something last came, by this node's clock that never jumps."""
    left: float = 0.0
    """When its connection ended; 0: it has one."""
    told: list[Message] = field(default_factory=list)
    """What was said to it; said again when it comes back, for the end of a connection loses what is on its way."""
    known: list[Message] = field(default_factory=list)
    """What it said; the same once more is no news."""
    gone: bool = False
    """Said goodbye, or was given up: no more is expected of it."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A node did not come back in time."""

    why: str


type Event = tuple[int, Said | Lost]


@dataclass
class Host:
    """The meeting of one attempt of one job. :attr:`events` has what nodes say, with their ranks."""

    token: bytes
    nodes: int
    times: Times = field(default_factory=Times)
    attempt: str = field(default_factory=fresh_nonce)
    members: dict[int, Member] = field(default_factory=dict)
    events: asyncio.Queue[Event] = field(default_factory=asyncio.Queue)
    closed: str = ""
    """Why no new node is let in any more."""
    port: int = 0
    strangers: int = 0
    _server: asyncio.Server | None = None
    _watch: asyncio.Task[None] | None = None
    _handlers: set[asyncio.Task[None]] = field(default_factory=set)

    async def open(self, ports: Sequence[int]) -> int:
        """Listen on the first of ``ports`` that is free (none given: on any) and give it.

        Raises :class:`RefusedError` when all are taken.
        """
        taken = []
        for port in ports or (0,):
            listening = _listen(port)
            if listening is not None:
                self._server = await asyncio.start_server(self._serve, sock=listening, backlog=BACKLOG, limit=1 << 20)
                self.port = listening.getsockname()[1]
                self._watch = asyncio.create_task(self._look())
                return self.port
            taken.append(str(port))
        raise RefusedError(
            f"none of the ports where nodes meet is free here: {', '.join(taken)}",
            fix="another job runs on this node (ss -ltnp); submit again with another name, or give --ports",
        )

    def say(self, rank: int, message: Message) -> None:
        """Send to one node; one without a connection is told when it comes back."""
        member = self.members.get(rank)
        if member is None:
            return
        if not isinstance(message, Beat):
            member.told.append(message)
        if member.writer is None:
            return
        if member.writer.transport.get_write_buffer_size() > QUEUE_BYTES:
            member.writer.transport.abort()
            return
        with contextlib.suppress(OSError, RuntimeError):
            member.writer.write(encode(message))

    def forget(self, rank: int) -> None:
        """Expect nothing more of a node."""
        if rank in self.members:
            self.members[rank].gone = True

    async def close(self) -> None:
        """Stop listening and end every connection."""
        if self._watch:
            self._watch.cancel()
        if self._server:
            self._server.close()
        for member in self.members.values():
            if member.writer:
                with contextlib.suppress(OSError, RuntimeError):
                    member.writer.close()
        for task in list(self._handlers):
            task.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        self.strangers += 1
        member = None
        try:
            if self.strangers <= STRANGERS:
                async with asyncio.timeout(self.times.handshake):
                    member = await self._admit(reader, writer)
        except (NotOurs, EOFError, OSError, TimeoutError):
            pass  # a stranger, or one of ours whose connection broke: it tries again
        except asyncio.CancelledError:
            self._handlers.discard(task)
            writer.close()
            return
        finally:
            self.strangers -= 1
        try:
            if member is not None:
                await self._hear(member, reader, writer)
        except asyncio.CancelledError:
            pass  # the meeting is over
        finally:
            self._handlers.discard(task)
            with contextlib.suppress(OSError, RuntimeError):
                writer.close()

    async def _admit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Member | None:
        hello = await receive(reader, STRANGER_BYTES)
        if not isinstance(hello, Hello) or hello.protocol != PROTOCOL or hello.job != public_name(self.token):
            raise NotOurs("another job, or no node at all")
        nonce = fresh_nonce()
        proof = prove(self.token, "first", hello.nonce, nonce)
        writer.write(encode(Challenge(protocol=PROTOCOL, nonce=nonce, proof=proof)))
        answer = await receive(reader, STRANGER_BYTES)
        said = (answer.rank, answer.life, answer.attempt) if isinstance(answer, Answer) else ()
        if not isinstance(answer, Answer) or not holds(
            self.token, answer.proof, "node", nonce, hello.nonce, *map(str, said)
        ):
            raise NotOurs("it has not our token")
        problem = self._problem(answer)
        if problem:
            writer.write(encode(Refused(reason=problem, status=LATE_STATUS)))
            await writer.drain()
            return None
        address, here = writer.get_extra_info("peername")[0], writer.get_extra_info("sockname")[0]
        writer.write(encode(Welcome(attempt=self.attempt, clock=time.time(), address=_plain(address))))
        return self._enter(answer, writer, _plain(address), _plain(here))

    def _problem(self, answer: Answer) -> str:
        """Why a node that has our token is not let in; empty when it is."""
        known = self.members.get(answer.rank)
        if not 1 <= answer.rank < self.nodes:
            return f"rank {answer.rank} is not one of 1 to {self.nodes - 1}"
        if answer.attempt not in ("", self.attempt):
            return "it belongs to an earlier attempt of this job, whose first node has ended"
        if known and known.life == answer.life:
            return "it was given up, and the job went on or ended without it" if known.gone else ""
        if known and known.writer is not None:
            return f"rank {answer.rank} is taken by a node at {known.address}: two nodes were given one --rank"
        return self.closed

    def _enter(self, answer: Answer, writer: asyncio.StreamWriter, address: str, here: str) -> Member:
        now = time.monotonic()
        known = self.members.get(answer.rank)
        if known and known.life == answer.life:
            if known.writer is not None:
                known.writer.transport.abort()
            known.writer, known.heard, known.left = writer, now, 0.0
            writer.write(b"".join(map(encode, known.told)))
            return known
        member = Member(answer.rank, answer.life, address, here, writer, now)
        self.members[answer.rank] = member
        return member

    async def _hear(self, member: Member, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                message = await receive(reader, MESSAGE_BYTES)
                member.heard = time.monotonic()
                if not isinstance(message, Beat) and message not in member.known:
                    member.known.append(message)
                    self.events.put_nowait((member.rank, message))
        except (NotOurs, EOFError, OSError):
            if member.writer is writer:
                member.writer, member.left = None, time.monotonic()

    async def _look(self) -> None:
        """Signs of life to everybody, and who has given none."""
        while True:
            await asyncio.sleep(self.times.beat)
            now = time.monotonic()
            for member in self.members.values():
                if member.gone:
                    continue
                self.say(member.rank, Beat())
                if member.writer is not None and now - member.heard > self.times.silent:
                    member.writer.transport.abort()
                    member.writer, member.left = None, now
                elif member.writer is None and now - member.left > self.times.away:
                    member.gone = True
                    silent = now - member.heard
                    why = f"nothing was heard of it for {silent:.0f} s, and its connection did not come back"
                    self.events.put_nowait((member.rank, Lost(why)))


def _listen(port: int) -> socket.socket | None:
    """A socket on ``port`` for IPv6 and IPv4 (or IPv4 where there is no other); None when the port is taken."""
    for family, place in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):  # noqa: S104 - others must reach it
        try:
            listening = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            continue
        try:
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((place, port))
            listening.listen(BACKLOG)
        except OSError as error:
            listening.close()
            if error.errno == errno.EADDRINUSE:
                return None
            if family == socket.AF_INET:
                raise
            continue
        return listening
    return None


def _plain(address: str) -> str:
    """An IPv4 address that came over an IPv6 socket, as itself; a scope is not part of an address elsewhere."""
    return address.removeprefix("::ffff:").partition("%")[0]
