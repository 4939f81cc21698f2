"""Brings one node's Ray up, watches it, and takes it down. A program of its own, with the environment's Python.

First line of input: a :class:`NodeSpec`. First line of output: an :class:`Up`. Then each line ``nodes`` is answered
with an :class:`Asked`, and the line ``logs`` starts what sends the workers' output to the driver. At the end of the
input, or at SIGTERM, everything goes down and the status is 0; it is 1 when something of Ray ended by itself.

``ray start`` would start four processes more than a job needs: Ray Client's server, the autoscaler's monitor and the
dashboard's server on the head, and a dashboard agent on every node, seconds of processor time each. They are what
:class:`_Quiet` leaves out; a job with a dashboard has the last two.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from typing import Any, NoReturn

import msgspec

from orbit.launch.ray.stack import agent, lean

STARTED = time.monotonic()
lean.skip_unwanted()

from ray._private import services, utils  # noqa: E402 - how long that takes is measured
from ray._private.node import Node  # noqa: E402
from ray._private.parameter import RayParams  # noqa: E402
from ray._private.resource_isolation_config import ResourceIsolationConfig  # noqa: E402

from orbit.core.records import compact_json  # noqa: E402
from orbit.launch.ray.spec import Asked, NodeSpec, Seen, Up  # noqa: E402

IMPORTED = time.monotonic()
LOOK_S = 0.2
DASHBOARD_FLAG = "--dashboard_agent_command="
ENVIRONMENTS_FLAG = "--runtime_env_agent_command="
ENDED_WELL = (0, -signal.SIGTERM, 128 + signal.SIGTERM)


class _Quiet(Node):  # type: ignore[misc]
    """A node without a dashboard."""

    def start_api_server(self, **_: object) -> None:
        self._webui_url = ""


def main() -> None:
    """Read the order, bring the node up, serve until the end of the input."""
    spec = msgspec.json.decode(sys.stdin.buffer.readline(), type=NodeSpec)
    signal.signal(signal.SIGTERM, _leave)
    _change_agents(spec)
    node = (Node if spec.dashboard else _Quiet)(
        _params(spec), head=spec.head, shutdown_at_exit=False, spawn_reaper=True
    )
    try:
        _say(
            Up(
                address=node.address,
                node_id=node.node_id,
                session=node.get_session_dir_path(),
                dashboard=node.webui_url or "",
                seconds=IMPORTED - STARTED,
            )
        )
        status = _serve(node)
    except KeyboardInterrupt:
        status = 0
    node.kill_all_processes(check_alive=False, allow_graceful=True)
    sys.stdout.flush()
    os._exit(status)  # Ray's own threads and exit handlers have nothing to add


def _params(spec: NodeSpec) -> Any:
    memory = spec.memory_bytes or utils.estimate_available_memory()
    params = RayParams(
        node_ip_address=spec.ip,
        node_name=spec.name,
        node_manager_port=0,
        object_manager_port=0,
        metrics_export_port=0,
        metrics_agent_port=0,
        runtime_env_agent_port=0,
        dashboard_agent_listen_port=0,
        num_cpus=spec.cpus,
        num_gpus=spec.gpus,
        resources=dict(spec.resources),
        labels=dict(spec.labels),
        available_memory_bytes=memory,
        object_store_memory=spec.store_bytes,
        temp_dir=spec.folder,
        include_dashboard=spec.dashboard,
        dashboard_host="127.0.0.1",
        include_log_monitor=False,
        no_monitor=True,
        resource_isolation_config=ResourceIsolationConfig(enable_resource_isolation=False),
    )
    if spec.head:
        params.gcs_server_port = 0
    else:
        params.gcs_address = spec.address
    return params


def _change_agents(spec: NodeSpec) -> None:
    """Have the raylet start :mod:`agent` where it would start a dashboard agent, and the other one by :mod:`lean`."""
    original = services.start_ray_process
    own = [sys.executable, "-I", "-S", agent.__file__]
    plain = not any(" " in place for place in (*own, lean.__file__, spec.folder))  # else nothing is changed

    def change(word: str) -> str:
        if word.startswith(DASHBOARD_FLAG) and not spec.dashboard and plain:
            folder, node = (_value(word, flag) for flag in ("--session-dir=", "--node-id="))
            return DASHBOARD_FLAG + " ".join([*own, folder, node])
        if word.startswith(ENVIRONMENTS_FLAG):
            head, found, rest = word.partition(f"{os.sep}ray{os.sep}_private{os.sep}runtime_env")
            python, _, place = head.rpartition(" ")
            return f"{python} {lean.__file__} {place}{found}{rest}" if python and plain else word
        return word

    def start(command: list[str], process_type: str, *rest: Any, **more: Any) -> Any:
        return original([change(word) for word in command], process_type, *rest, **more)

    services.start_ray_process = start


def _value(command: str, flag: str) -> str:
    """The value of ``flag`` in a command line; our folders hold neither blanks nor quotes."""
    return command.partition(flag)[2].partition(" ")[0].strip('"')


def _serve(node: Any) -> int:
    """Answer until the input ends; the status."""
    waiting = select.poll()
    waiting.register(sys.stdin.fileno(), select.POLLIN | select.POLLHUP)
    while True:
        dead = [(kind, each.returncode) for kind, each in node.dead_processes() if each.returncode not in ENDED_WELL]
        if dead:
            said = "; ".join(f"{kind} ended with status {status}" for kind, status in dead)
            sys.stderr.write(f"{said}\n")
            sys.stderr.flush()
            return 1
        if not waiting.poll(LOOK_S * 1000):
            continue
        word = os.read(sys.stdin.fileno(), 4096)
        if not word:
            return 0
        for line in word.split():
            if line == b"logs":
                node.start_log_monitor()
            elif line == b"nodes":
                _say(Asked(nodes=_nodes(node)))


def _nodes(node: Any) -> tuple[Seen, ...]:
    found = node.get_gcs_client().get_all_node_info(timeout=10)
    return tuple(
        Seen(
            node_id=info.node_id.hex(),
            name=info.node_name,
            ip=info.node_manager_address,
            alive=info.state == 0,
            resources=dict(info.resources_total),
            why=info.death_info.reason_message,
        )
        for info in found.values()
    )


def _say(value: object) -> None:
    sys.stdout.buffer.write(compact_json(value) + b"\n")
    sys.stdout.buffer.flush()


def _leave(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt
