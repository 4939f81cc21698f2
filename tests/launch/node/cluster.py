"""Jobs of several nodes on this machine, each node a process as its container would run it; and what they leave."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orbit.launch.node.options import Order, words
from orbit.launch.plan import meeting_ports

PATIENCE_S = 120.0
PYTHON = sys.executable
KEPT = ("PATH", "HOME", "LANG", "PYTHONPATH")


def launch(*extra: str) -> list[str]:
    """The node program with this interpreter."""
    return [PYTHON, "-c", "import sys; from orbit.cli import main; sys.exit(main())", "launch", "node", *extra]


@dataclass
class LocalJob:
    """Nodes of one job; each has its state folder, all have the token."""

    folder: Path
    name: str = "job"
    env: dict[str, str] = field(default_factory=dict)
    nodes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    wrap: Callable[[int], Sequence[str]] = lambda _rank: ()
    """Words before the program of a node: how it enters a namespace."""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        # a package of our tools that costs every process with Ray two seconds; an image has none of it
        lean = self.folder / "lean"
        lean.mkdir(exist_ok=True)
        (lean / "rfc3987_syntax.py").write_text("raise ImportError\n")
        self.env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(lean), os.environ.get("PYTHONPATH", "")]))
        self.owner = self.folder / "owner"
        self.owner.write_text(secrets.token_hex(32))
        self.owner.chmod(0o600)

    def start(self, rank: int, order: Order, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start one node."""
        base = {key: os.environ[key] for key in KEPT if key in os.environ}
        base |= {"ORBIT_OWNER_FILE": str(self.owner), "ORBIT_STATE": str(self.state(rank)), **self.env, **(env or {})}
        with open(self.log_file(rank), "ab") as log:
            argv = [*self.wrap(rank), *launch(*words(order))]
            child = subprocess.Popen(argv, env=base, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.nodes[rank] = child
        return child

    def start_all(self, order: Callable[[int], Order], env: Mapping[int, Mapping[str, str]] | None = None) -> None:
        """Start every node that ``order(0)`` has."""
        for rank in range(order(0).nodes):
            self.start(rank, order(rank), (env or {}).get(rank))

    def state(self, rank: int) -> Path:
        return self.folder / f"s{rank}"

    def log_file(self, rank: int) -> Path:
        return self.folder / f"log-{rank}"

    def log(self, rank: int) -> str:
        """What the node and its command have said."""
        return self.log_file(rank).read_text(errors="replace")

    def logs(self) -> str:
        return "\n".join(f"--- {rank}\n{self.log(rank)}" for rank in self.nodes)

    def until(self, rank: int, pattern: str) -> re.Match[str]:
        """Wait for a line; fails with all that was said when the node ends first."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            found = re.search(pattern, self.log(rank))
            if found:
                return found
            if self.nodes[rank].poll() is not None:
                found = re.search(pattern, self.log(rank))
                if found:
                    return found
                break
            time.sleep(0.05)
        raise AssertionError(f"node {rank} never said {pattern!r}\n{self.logs()}")

    def statuses(self) -> list[int]:
        """Exit statuses by rank, when all have ended."""
        return [self.nodes[rank].wait(PATIENCE_S) for rank in sorted(self.nodes)]

    def end(self) -> None:
        """Kill what still runs of the node programs; their guards see to the rest."""
        for child in self.nodes.values():
            if child.poll() is None:
                child.kill()
            child.wait()


def leftovers(folder: Path) -> dict[int, str]:
    """Processes that have ``folder`` in their environment or command line, without who asks."""
    found = {}
    word = os.fsencode(folder)
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            state = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()[0]
            text = Path(f"/proc/{name}/environ").read_bytes() + Path(f"/proc/{name}/cmdline").read_bytes()
            if word in text and state not in b"ZX" and int(name) != os.getpid():
                found[int(name)] = (
                    Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
    return found


def check_nothing_left(folder: Path) -> None:
    """No process of a job in ``folder``, and none of its private folders; guards get a few seconds."""
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline and (leftovers(folder) or list(folder.rglob("o-*"))):
        time.sleep(0.1)
    assert leftovers(folder) == {}
    assert list(folder.rglob("o-*")) == []


def order(nodes: int, command: Sequence[str], *, seed: str, **more: object) -> Callable[[int], Order]:
    """Orders of a job that meets on this machine; ``seed`` gives its ports."""
    usual: dict[str, object] = {
        "nodes": nodes,
        "cpus": 1,
        "nofile": 1024,
        "meet": "tcp:127.0.0.1" if nodes > 1 else "",
        "ports": meeting_ports(seed) if nodes > 1 else (),
        "late_minutes": 1.0,
        "grace_seconds": 20.0,
        "lost_seconds": 8.0,
        "command": tuple(command),
    }
    values = usual | more
    return lambda rank: Order(rank=str(rank), **values)  # type: ignore[arg-type]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as place:
        port: int = place.getsockname()[1]
        return port


@contextlib.contextmanager
def squatting(*ports: int) -> Iterator[list[int]]:
    """Somebody else listens on these ports, where they are free; gives those that are held."""
    with contextlib.ExitStack() as stack:
        held = []
        for port in ports:
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_server(("0.0.0.0", port)))
                held.append(port)
        yield held


def stop(child: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> None:
    child.send_signal(number)
