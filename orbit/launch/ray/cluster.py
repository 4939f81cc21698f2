"""One node's part of a private Ray cluster: its environment, its starter, what the starter says."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from orbit.core.files import write_atomic
from orbit.core.proc import Child, own_python, running
from orbit.core.records import compact_json
from orbit.errors import CheckFailed, MissingError
from orbit.launch.ray.spec import Asked, NodeSpec, Seen, Up

STARTER = "orbit.launch.ray.stack.start"
OTHERS = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "RAY_REDIS_ADDRESS", "RAY_AUTH_TOKEN", "RAY_JOB_CONFIG_JSON_ENV_VAR")
"""Variables that lead to another cluster, or would be believed before ours."""
ROTATED_BYTES = 32 << 20
ROTATED_FILES = 2
FULL_BYTES = 2 << 30
"""Ray calls a disk full at 95 %; of a disk of 9 TB that would be 450 GB left."""
TAIL_BYTES = 4096
LAST_S = 5.0
"""For the end of a starter that has said its last word."""
DOWN_S = 8.0
"""Ray ends its processes one by one and gives each a second."""


class RayFailed(CheckFailed):
    """Ray did not come up on this node, or ended; ``tail`` is the end of what it said."""

    def __init__(self, what: str, tail: str) -> None:
        super().__init__(what, fix="the lines below are what Ray said; the logs are kept, see above")
        self.tail = tail


def stale_variables(env: Mapping[str, str]) -> list[str]:
    """Variables of ``env`` that name another cluster than this job's: not used, and worth a line."""
    return [name for name in OTHERS if env.get(name)]


def ray_environment(env: Mapping[str, str], *, token_file: Path, mark: str, folder: Path) -> dict[str, str]:
    """What Ray's processes and the command get: the job's own variables, less another cluster's, plus ours.

    ``mark``: ``NAME=value``, see :mod:`orbit.launch.ray.sweep`.
    """
    name, _, value = mark.partition("=")
    kept = {key: text for key, text in env.items() if key not in OTHERS}
    disk = shutil.disk_usage(folder)
    return kept | {
        name: value,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token_file),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ROTATION_MAX_BYTES": str(ROTATED_BYTES),
        "RAY_ROTATION_BACKUP_COUNT": str(ROTATED_FILES),
        "RAY_local_fs_capacity_threshold": f"{max(0.95, 1 - FULL_BYTES / max(disk.total, 1)):.4f}",
        "RAY_TMPDIR": str(folder),
    }


def write_token(folder: Path, token: str) -> Path:
    """Ray's token in a file that nobody else reads."""
    path = folder / "token"
    write_atomic(path, token.encode(), mode=0o600)
    return path


class RayNode:
    """Ray on this node while the block of :func:`ray_node` runs."""

    def __init__(self, child: Child, log: Path) -> None:
        self._child = child
        self._log = log
        self._asking = asyncio.Lock()

    @property
    def pid(self) -> int:
        """Of the starter, which leads a session of its own."""
        return self._child.pid

    async def up(self, spec: NodeSpec) -> Up:
        """Bring the node up. Raises :class:`RayFailed`."""
        self._write(compact_json(spec))
        return msgspec.json.decode(await self._line(), type=Up)

    async def nodes(self) -> tuple[Seen, ...]:
        """All nodes as the head knows them; on the head only. Raises :class:`RayFailed`."""
        async with self._asking:
            self._write(b"nodes")
            return msgspec.json.decode(await self._line(), type=Asked).nodes

    def forward_logs(self) -> None:
        """Begin to send what workers print to the driver."""
        self._write(b"logs")

    def check(self) -> None:
        """Raise :class:`RayFailed` when Ray has ended here."""
        status = self._child.poll()
        if status is not None:
            raise RayFailed(f"Ray ended on this node (status {status})", self.tail())

    async def down(self) -> None:
        """Have everything of Ray end in its own order; what does not is killed when the block ends."""
        assert self._child.stdin is not None
        with contextlib.suppress(OSError):
            self._child.stdin.close()
        deadline = time.monotonic() + DOWN_S
        while self._child.poll() is None and time.monotonic() < deadline:
            await asyncio.sleep(0.05)

    def tail(self) -> str:
        """The end of what the starter said."""
        try:
            data = self._log.read_bytes()[-TAIL_BYTES:]
        except OSError:
            return ""
        return data.decode(errors="replace").strip()

    def _write(self, line: bytes) -> None:
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(line + b"\n")
            self._child.stdin.flush()
        except OSError:
            self.check()
            raise RayFailed("Ray's starter does not listen", self.tail()) from None

    async def _line(self) -> bytes:
        assert self._child.stdout is not None
        line = await asyncio.to_thread(self._child.stdout.readline)
        if not line:
            deadline = time.monotonic() + LAST_S
            while self._child.poll() is None and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
            raise RayFailed(f"Ray did not come up (status {self._child.poll()})", self.tail())
        return line


@contextlib.contextmanager
def ray_node(env: Mapping[str, str], folder: Path) -> Iterator[RayNode]:
    """Start the starter, which loads Ray and waits for its order; at the end of the block it has ended with all of it.

    Raises :class:`MissingError` where there is no Ray.
    """
    log = folder / "starter.log"
    with running(starter_argv(), doing="starting Ray", env=env, log=log, talks=True) as child:
        yield RayNode(child, log)


def starter_argv() -> list[str]:
    """The starter with this environment's Python. Raises :class:`MissingError` where there is no Ray."""
    found = any(os.path.isdir(os.path.join(place, "ray", "_private")) for place in sys.path if place)
    if not found:
        raise MissingError(
            "Ray is not installed beside Orbit here", fix="run in the image, or with --no-ray for a job of one node"
        )
    return own_python(STARTER)
