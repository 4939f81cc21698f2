"""Every other node's side of the meeting: it finds the first node, proves itself, and notices when that is gone."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from orbit.core.amounts import format_seconds
from orbit.errors import ExitCode, MissingError, OrbitError
from orbit.launch.node.meeting.host import Lost
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

type Places = Callable[[], Sequence[tuple[str, int]]]
"""Where the first node may be now: host and port, in the order they are tried. Asked anew for each round."""


class TurnedAway(OrbitError):
    """The first node does not want this one; its words."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(f"the first node does not let this one in: {reason}", fix="see what the first node says")
        self.code = ExitCode(status)


@dataclass
class Guest:
    """A node's line to the first node. :attr:`events` has what that says."""

    token: bytes
    rank: int
    places: Places
    times: Times = field(default_factory=Times)
    life: str = field(default_factory=fresh_nonce)
    attempt: str = ""
    events: asyncio.Queue[Said | Lost] = field(default_factory=asyncio.Queue)
    here: str = ""
    """This node's address on the way to the first node."""
    there: str = ""
    """The first node's address as it was reached."""
    skew: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Clocks around the first exchange: ours, the first node's, ours. For the report alone."""
    tried: dict[str, str] = field(default_factory=dict)
    """What came of the last attempt at each place."""
    told: list[Message] = field(default_factory=list)
    """What was said; said again on a new connection, for the end of one loses what is on its way."""
    known: list[Message] = field(default_factory=list)
    """What was heard; the same once more is no news."""
    _writer: asyncio.StreamWriter | None = None
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _heard: float = 0.0

    async def meet(self, patience: float) -> None:
        """Find the first node and get in. Raises :class:`MissingError` after ``patience`` seconds without success,
        :class:`TurnedAway` when it does not want us."""
        reader = await self._find(patience)
        self._tasks = [asyncio.create_task(self._stay(reader)), asyncio.create_task(self._beat())]

    def say(self, message: Message) -> None:
        """Send; while there is no connection it waits for the next one."""
        if not isinstance(message, Beat):
            self.told.append(message)
        if self._writer is not None:
            with contextlib.suppress(OSError, RuntimeError):
                self._writer.write(encode(message))

    async def close(self) -> None:
        """End the connection when what was said is out, or after a second."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._writer is not None:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(1):
                    await self._writer.drain()
            self._drop()

    async def _find(self, patience: float) -> asyncio.StreamReader:
        """A reader of the first node's words. One place after the other; a round that fails is followed by another."""
        deadline = time.monotonic() + patience
        pause = self.times.retry / 8
        while True:
            for host, port in self.places():
                left = deadline - time.monotonic()
                try:
                    async with asyncio.timeout(min(self.times.handshake, max(left, 0.1))):
                        return await self._try(host, port)
                except (NotOurs, EOFError):
                    self.tried[f"{host}:{port}"] = "somebody else listens there"
                except TimeoutError:
                    self.tried[f"{host}:{port}"] = "no answer"
                except OSError as error:
                    self.tried[f"{host}:{port}"] = error.strerror or str(error)
            if time.monotonic() >= deadline:
                raise MissingError(
                    f"the first node was not found within {format_seconds(patience)}: {self._summary()}",
                    fix="is its container running (orbit launch status), and is its name resolved and reached from "
                    "here? All nodes must have been submitted together",
                )
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads attempts, keeps no secret
            pause = min(pause * 2, self.times.retry)

    def _summary(self) -> str:
        said: dict[str, list[str]] = {}
        for place, problem in self.tried.items():
            said.setdefault(problem, []).append(place)
        return (
            "; ".join(f"{', '.join(where)}: {problem}" for problem, where in said.items()) or "it has said nowhere yet"
        )

    async def _try(self, host: str, port: int) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection(host, port, limit=1 << 20)
        try:
            await self._prove(reader, writer)
        except BaseException:
            writer.close()
            raise
        _no_delay(writer)
        self._writer, self._heard = writer, time.monotonic()
        self.there = _address(writer, "peername")
        writer.write(b"".join(map(encode, self.told)))
        return reader

    async def _prove(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine = fresh_nonce()
        writer.write(encode(Hello(protocol=PROTOCOL, job=public_name(self.token), nonce=mine)))
        challenge = await receive(reader, STRANGER_BYTES)
        if not isinstance(challenge, Challenge) or challenge.protocol != PROTOCOL:
            raise NotOurs("it speaks another protocol")
        if not holds(self.token, challenge.proof, "first", mine, challenge.nonce):
            raise NotOurs("it has not our token")
        said = (str(self.rank), self.life, self.attempt)
        proof = prove(self.token, "node", challenge.nonce, mine, *said)
        asked = time.time()
        answer = Answer(proof=proof, rank=self.rank, life=self.life, attempt=self.attempt, clock=asked)
        writer.write(encode(answer))
        welcome = await receive(reader, STRANGER_BYTES)
        if isinstance(welcome, Refused):
            raise TurnedAway(welcome.reason, welcome.status)
        if not isinstance(welcome, Welcome):
            raise NotOurs("it neither welcomes nor refuses")
        if not self.attempt:
            self.skew = (asked, welcome.clock, time.time())
        self.attempt = welcome.attempt
        self.here = _address(writer, "sockname")

    async def _stay(self, reader: asyncio.StreamReader) -> None:
        """Hear what is said; come back when the connection breaks; at last say that the first node is lost."""
        while True:
            try:
                while True:
                    async with asyncio.timeout(self.times.silent):
                        message = await receive(reader, MESSAGE_BYTES)
                    self._heard = time.monotonic()
                    if not isinstance(message, Beat) and message not in self.known:
                        self.known.append(message)
                        self.events.put_nowait(message)
            except (NotOurs, EOFError, OSError, TimeoutError):
                self._drop()
            try:
                reader = await self._find(self.times.away)
            except OrbitError as error:
                silent = time.monotonic() - self._heard
                self.events.put_nowait(Lost(f"nothing was heard of it for {silent:.0f} s ({error.what})"))
                return

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self.times.beat)
            self.say(Beat())

    def _drop(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None


def _no_delay(writer: asyncio.StreamWriter) -> None:
    peer = writer.get_extra_info("socket")
    if peer is not None:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _address(writer: asyncio.StreamWriter, which: str) -> str:
    address: str = writer.get_extra_info(which)[0]
    return address.removeprefix("::ffff:").partition("%")[0]
