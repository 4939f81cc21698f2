"""Asks a Ray cluster for its nodes until enough of them are there. A program of its own, with the environment's Python.

Input: a :class:`Wanted`. Last line of output: a :class:`Found`, also when time is over. It joins nothing and starts
nothing: only the head's table of nodes is read.
"""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

import msgspec

from orbit.core.records import compact_json
from orbit.launch.ray.join import Found, Wanted, is_fit
from orbit.launch.ray.spec import Seen
from orbit.launch.ray.stack import lean

lean.skip_unwanted()
raylet: Any = importlib.import_module("ray._raylet")
"""Compiled; it has no types."""

LOOK_S = 1.0
ASK_S = 10


def main() -> None:
    """Read, ask, say."""
    wanted = msgspec.json.decode(sys.stdin.buffer.read(), type=Wanted)
    found = wait(wanted)
    sys.stdout.buffer.write(compact_json(found) + b"\n")


def wait(wanted: Wanted) -> Found:
    """The nodes, as soon as ``wanted.nodes`` of them are fit, else after ``wanted.seconds``."""
    deadline = time.monotonic() + wanted.seconds
    found = Found(error="it was not asked")
    while True:
        try:
            table = raylet.GcsClient(address=wanted.address).get_all_node_info(timeout=ASK_S)
        except Exception as error:  # noqa: BLE001 - of Ray's own kinds; the head may not be up yet
            found = Found(nodes=found.nodes, error=f"{type(error).__name__}: {error}")
        else:
            found = Found(nodes=tuple(map(_seen, table.values())))
        if sum(is_fit(node, wanted) for node in found.nodes) >= wanted.nodes or time.monotonic() > deadline:
            return found
        time.sleep(LOOK_S)


def _seen(info: Any) -> Seen:
    """A row of the table (GcsNodeInfo)."""
    return Seen(
        node_id=info.node_id.hex(),
        name=info.node_name,
        ip=info.node_manager_address,
        alive=info.state == 0,
        resources=dict(info.resources_total),
        why=info.death_info.reason_message,
    )
