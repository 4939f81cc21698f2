"""What nodes say to each other: one JSON object behind its length, in a closed set of kinds.

``00 00 00 2a {"kind":"hello",...}``: four bytes, most significant first, then that many bytes of JSON.
"""

from __future__ import annotations

import asyncio

import msgspec

from orbit.core.records import compact_json
from orbit.errors import OrbitError
from orbit.launch.preflight.model import Check, NodeReport

PROTOCOL = "orbit.meeting/1"
STRANGER_BYTES = 4096
"""Most that is read of who has not proven anything yet."""
MESSAGE_BYTES = 8 << 20


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag=str.lower):
    """Base of everything that is said."""


class Hello(Message, frozen=True, kw_only=True):
    """A node begins: which protocol, which job, a random number."""

    protocol: str
    job: str
    nonce: str


class Challenge(Message, frozen=True, kw_only=True):
    """The first node's answer: its proof over both numbers."""

    protocol: str
    nonce: str
    proof: str


class Answer(Message, frozen=True, kw_only=True):
    """The node's proof, and who it is."""

    proof: str
    rank: int
    life: str
    """Random, made when the node program started: two programs that claim one rank have two of them."""
    attempt: str = ""
    """The first node's life as it was when this node last met it; empty the first time."""
    clock: float = 0.0
    """Seconds since 1970 on this node, for the report only."""


class Welcome(Message, frozen=True, kw_only=True):
    """The node is in."""

    attempt: str
    clock: float
    address: str
    """As the first node sees the node's own address."""


class Refused(Message, frozen=True, kw_only=True):
    """The node is not in, and shall not try again."""

    reason: str
    status: int


class Report(Message, frozen=True, kw_only=True):
    """What the node found out about itself."""

    report: NodeReport


class Verdict(Message, frozen=True, kw_only=True):
    """Go on or not; a node that does not is told its exit status in an :class:`End`."""

    goes: bool
    reason: str = ""


class Across(Message, frozen=True, kw_only=True):
    """All GPUs of all nodes that go on shall add numbers up: meet there, as this one of so many nodes."""

    address: str
    port: int
    node: int
    nodes: int


class Summed(Message, frozen=True, kw_only=True):
    """What the node saw of that."""

    check: Check


class Bring(Message, frozen=True, kw_only=True):
    """Ray's head is up: bring your node up."""

    address: str


class Joined(Message, frozen=True, kw_only=True):
    """The node's Ray is up."""

    node_id: str


class Trouble(Message, frozen=True, kw_only=True):
    """The node cannot go on, or was told to end (``leaving``)."""

    reason: str
    leaving: bool = False
    log: str = ""
    """The end of what Ray said."""


class Beat(Message, frozen=True, kw_only=True):
    """Still there."""


class End(Message, frozen=True, kw_only=True):
    """The job is over: everything down, then exit with ``status``."""

    status: int
    reason: str
    failed: bool = False
    """Whether logs are worth keeping."""


class Gone(Message, frozen=True, kw_only=True):
    """The node has nothing left running."""


type Said = (
    Hello
    | Challenge
    | Answer
    | Welcome
    | Refused
    | Report
    | Verdict
    | Across
    | Summed
    | Bring
    | Joined
    | Trouble
    | Beat
    | End
    | Gone
)
_DECODER: msgspec.json.Decoder[Said] = msgspec.json.Decoder(Said)


class NotOurs(OrbitError):
    """Who is at the other end does not speak this protocol, or has not our token."""


def encode(message: Message) -> bytes:
    """``message`` as it is sent."""
    data = compact_json(message)
    return len(data).to_bytes(4) + data


async def receive(reader: asyncio.StreamReader, limit: int) -> Said:
    """The next message. Raises :class:`NotOurs` for what is none or is longer than ``limit``, EOFError at the end."""
    try:
        length = int.from_bytes(await reader.readexactly(4))
        if length > limit:
            raise NotOurs(f"a message of {length} bytes where at most {limit} are expected")
        data = await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        raise EOFError from None
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise NotOurs(f"not a message: {error}") from None
