"""Placement groups that fit: a bundle with more processors than its node has waits for ever while GPUs are free."""

from __future__ import annotations

from collections.abc import Sequence

from orbit.core.records import Record
from orbit.errors import RefusedError


class Bundle(Record, frozen=True, kw_only=True):
    """What lies on one node together."""

    cpus: float
    gpus: float


def fit(wanted: Sequence[Bundle], nodes: Sequence[Bundle]) -> tuple[Bundle, ...]:
    """``wanted`` with as many processors as there are: GPUs are never fewer, CPUs are scaled down where they must be.

    ``nodes``: what each node has. A bundle lies on one node; GPUs are placed first, the largest bundles first. Raises
    :class:`RefusedError` with what is wanted and what there is when the GPUs do not fit.
    """
    order = sorted(range(len(wanted)), key=lambda one: (-wanted[one].gpus, -wanted[one].cpus))
    free = [[node.gpus, node.cpus] for node in nodes]
    placed: list[list[int]] = [[] for _ in nodes]
    for one in order:
        room = [at for at, (gpus, _) in enumerate(free) if gpus >= wanted[one].gpus]
        if not room:
            raise RefusedError(
                f"bundles want {_told(wanted)}, and the nodes have {_told(nodes)}",
                fix="fewer GPUs for each bundle, or more nodes: gpus_per_node and nodes of the recipe",
            )
        at = max(room, key=lambda at: (free[at][1] >= wanted[one].cpus, free[at][1], -at))
        free[at][0] -= wanted[one].gpus
        free[at][1] -= wanted[one].cpus
        placed[at].append(one)
    cpus = {one: wanted[one].cpus for one in order}
    for at, node in enumerate(nodes):
        asked = sum(wanted[one].cpus for one in placed[at])
        if asked > node.cpus:
            cpus |= {one: wanted[one].cpus * node.cpus / asked for one in placed[at]}
    return tuple(Bundle(cpus=cpus[one], gpus=wanted[one].gpus) for one in range(len(wanted)))


def _told(some: Sequence[Bundle]) -> str:
    return ", ".join(f"{each.gpus:g} GPU + {each.cpus:g} CPU" for each in some)
