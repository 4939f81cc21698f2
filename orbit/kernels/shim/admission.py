"""Asking the job server: no step that costs anything starts before it says so.

One connection per step. We send what the step is, wait for ``go``, and when it has ended send what it cost; the
connection's end without that tells the server that the step died. A step whose result is in the cache is only counted.
"""

from __future__ import annotations

import json

from .measure import Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

    from .config import Config

ASK_TIMEOUT_S = 30.0
"""To reach the server and hand over the line; the wait for ``go`` has no limit: the steps before us may take hours."""


class NotAdmitted(Exception):
    """The server cannot be reached, went away or refused."""


class Admission:
    """The server's leave for one step. Use as a context: the connection is closed at its end, come what may."""

    def __init__(self, config: Config, step: str, source: str, arch: str) -> None:
        self._config = config
        self._ask = {"recipe": config["recipe"], "step": step, "source": source, "arch": arch}
        self._line: socket.socket | None = None

    def __enter__(self) -> Admission:
        """Wait until the step may start. Raises :class:`NotAdmitted`."""
        if not self._config["jobs"]:
            return self
        self._line = self._connect(cached=False)
        try:
            self._line.settimeout(None)
            answer = self._answer(self._line)
        except OSError as error:
            self._line.close()
            raise NotAdmitted(f"the job server at {self._config['jobs']} went away: {error}") from None
        if answer != b"go":
            self._line.close()
            text = answer.decode(errors="replace") or "it closed the connection"
            raise NotAdmitted(f"the job server did not admit {self._ask['step']} of {self._ask['source']}: {text}")
        return self

    def __exit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.close()

    def report(self, result: Result) -> None:
        """Say what the step cost. A server that is gone by now does not fail a step that is done."""
        if self._line is not None:
            try:
                self._line.sendall((json.dumps(result.numbers()) + "\n").encode())
            except OSError:
                return

    def count_cached(self) -> None:
        """Say that the step's result was there already. Raises :class:`NotAdmitted`."""
        if self._config["jobs"]:
            self._connect(cached=True).close()

    def _connect(self, *, cached: bool) -> socket.socket:
        import socket  # noqa: PLC0415 - most calls never ask

        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            line.settimeout(ASK_TIMEOUT_S)
            line.connect(self._config["jobs"])
            line.sendall((json.dumps({**self._ask, "cached": cached}) + "\n").encode())
        except OSError as error:
            line.close()
            raise NotAdmitted(f"the job server at {self._config['jobs']} cannot be reached: {error}") from None
        return line

    @staticmethod
    def _answer(line: socket.socket) -> bytes:
        said = b""
        while not said.endswith(b"\n"):
            piece = line.recv(4096)
            if not piece:
                break
            said += piece
        return said.strip()
