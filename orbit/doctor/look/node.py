"""The checks of the preflight, for a job that demands nothing but the GPUs that are here."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path

from orbit.launch.preflight.model import Check, Demand
from orbit.launch.preflight.rdma import read_rdma
from orbit.launch.preflight.run import check_node


def node_checks(root: Path, env: Mapping[str, str], *, gpus: int, prefix: Path | None) -> tuple[Check, ...]:
    """Every check of this node. Without ``gpus`` neither the driver nor torch is asked, and it takes a second.

    RDMA is wanted where the host has it: that it is not in this container is told. ``prefix``: the environment whose
    torch tests the GPUs.
    """
    demand = Demand(gpus=gpus, rdma="wanted" if read_rdma(root) else "none")
    return check_node(demand, rank=0, host=platform.node(), env=env, root=root, prefix=prefix).checks
