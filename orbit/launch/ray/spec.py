"""What the starter of a node's Ray is told, and what it says: lines of JSON over its standard input and output."""

from __future__ import annotations

from orbit.core.records import Record


class NodeSpec(Record, frozen=True, kw_only=True):
    """One node of a cluster. All ports are what the kernel gives when they are bound: none is guessed or reserved."""

    head: bool
    address: str = ""
    """``host:port`` of the head; empty on the head."""
    ip: str
    """This node's address, as the others reach it."""
    name: str
    folder: str
    """Ray's temporary folder: this job's and this node's own."""
    cpus: int
    gpus: int
    memory_bytes: int
    """Of the whole node program and all below it; 0: what Ray finds."""
    store_bytes: int
    """Size of the object store; it fits /dev/shm."""
    resources: dict[str, float] = {}
    labels: dict[str, str] = {}
    dashboard: bool = False


class Up(Record, frozen=True, kw_only=True):
    """The starter's first line: this node is registered with the head."""

    address: str
    node_id: str
    session: str
    """Folder with the logs."""
    dashboard: str = ""
    seconds: float = 0.0
    """Of that for importing Ray; the rest of the time until now is Ray's own start."""


class Seen(Record, frozen=True, kw_only=True):
    """A node as the head's Ray knows it."""

    node_id: str
    name: str
    ip: str
    alive: bool
    resources: dict[str, float]
    why: str = ""
    """Why it is dead."""


class Asked(Record, frozen=True, kw_only=True):
    """The answer to a line on the starter's input: the nodes; other words begin something and have no nodes."""

    nodes: tuple[Seen, ...] = ()
