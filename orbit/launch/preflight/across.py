"""The all-reduce over all GPUs of all nodes: each node starts its own ranks when the nodes have met."""

from __future__ import annotations

from orbit.launch.preflight.gpu_tests import Group, run_group
from orbit.launch.preflight.model import Check, Demand
from orbit.launch.preflight.rules import load_rules
from orbit.launch.preflight.say import skipped
from orbit.launch.preflight.stack_checks import ACROSS, judge_group


def check_across(demand: Demand, *, node: int, nodes: int, address: str, port: int, cpu: bool = False) -> Check:
    """``all-reduce-across`` as node ``node`` (0 to ``nodes`` - 1, of those that go on) sees it.

    Rank 0 of the first node listens on ``port`` of ``address`` (the first node's, and free there), the others come.
    ``cpu``: two processes of each node and gloo. Takes at most ``times.group_s``, and then says who did not come.
    """
    if nodes < 2:
        return skipped(ACROSS, "the job has one node")
    if not demand.gpus and not cpu:
        return skipped(ACROSS, "no GPU is asked for")
    host = f"[{address}]" if ":" in address else address
    group = Group(
        local=2 if cpu else demand.gpus,
        nodes=nodes,
        node=node,
        meet=f"tcp://{host}:{port}",
        backend="gloo" if cpu else "nccl",
    )
    return judge_group(run_group(group, limit_s=load_rules().times.group_s), nodes)
