"""Steps, lines and clients for the tests of the job server."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from typing import ClassVar

from orbit.kernels.jobs.estimates import Estimator, Fallback, Known, Measured
from orbit.kernels.jobs.steps import Line, Report

MIB = 1 << 20
GIB = 1 << 30


def line(
    source: str,
    step: str = "host",
    arch: str = "",
    *,
    recipe: str = "a",
    began_s: float = 0.0,
    seconds: float = 10.0,
    cpu_s: float | None = None,
    peak: int = GIB,
    status: int = 0,
    waited_s: float = 0.0,
    reserved: int = 2 * GIB,
) -> Line:
    """A step that ran."""
    cpu = seconds if cpu_s is None else cpu_s
    return Line(
        recipe=recipe,
        step=step,  # type: ignore[arg-type]
        source=source,
        arch=arch,
        asked_s=began_s - waited_s,
        began_s=began_s,
        ended_s=began_s + seconds,
        reserved_bytes=reserved,
        report=Report(seconds=seconds, cpu_s=cpu, peak_bytes=peak, status=status),
    )


def cached(source: str, step: str = "host", arch: str = "", recipe: str = "a") -> Line:
    """A step whose result was there."""
    return Line(
        recipe=recipe, step=step, source=source, arch=arch, cached=True, asked_s=0.0, ended_s=0.0,  # type: ignore[arg-type]
    )  # fmt: skip


def measured(
    source: str, step: str = "host", arch: str = "", seconds: float = 10.0, peaks: Sequence[int] = (GIB,)
) -> Measured:
    """What an earlier run knows of a step that keeps one core busy."""
    return Measured(step=step, source=source, arch=arch, seconds=seconds, cpu_s=seconds, peaks=tuple(peaks))


def estimator(
    recipe: str = "a", steps: Sequence[Measured] = (), memory: int = GIB, unit_cpu_s: float = 100.0, archs: int = 1
) -> Estimator:
    """Estimates of a recipe."""
    return Estimator(Known(recipe=recipe, steps=tuple(steps)), Fallback(memory, unit_cpu_s, archs))


class Client:
    """What the shim is to the server, in as few words as possible."""

    opened: ClassVar[list[Client]] = []
    """All of them, for whoever closes them at the end of a test."""

    def __init__(self, path: str) -> None:
        self.opened.append(self)
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(10)
        self.sock.connect(path)

    def send(self, text: str) -> Client:
        """Send bytes as they are."""
        self.sock.sendall(text.encode())
        return self

    def ask(self, recipe: str = "a", source: str = "x.cu", step: str = "cicc", *, cached: bool = False) -> Client:
        """Send the first line."""
        line = {"recipe": recipe, "step": step, "source": source, "arch": "sm_90a", "cached": cached}
        return self.send(json.dumps(line) + "\n")

    def answer(self) -> str:
        """The server's line; empty when it closed the connection."""
        said = b""
        while not said.endswith(b"\n"):
            piece = self.sock.recv(4096)
            if not piece:
                break
            said += piece
        return said.decode()

    def waits(self, for_s: float = 0.15) -> bool:
        """Whether the server says nothing."""
        self.sock.settimeout(for_s)
        try:
            said = self.sock.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        finally:
            self.sock.settimeout(10)
        return said is None

    def report(self, seconds: float = 1.0, peak: int = MIB, status: int = 0) -> None:
        """Send the second line and close."""
        numbers = {"seconds": seconds, "cpu_s": seconds, "peak_bytes": peak, "status": status}
        self.send(json.dumps(numbers) + "\n").close()

    def close(self) -> None:
        """Hang up."""
        self.sock.close()
