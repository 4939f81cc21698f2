"""Ports of the first node: one of those named must be free, and the kernel must not give it to somebody else."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from orbit.launch.preflight.below import text
from orbit.launch.preflight.model import Check
from orbit.launch.preflight.say import failed, passed, skipped, warned


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """What was found about the ports named."""

    named: tuple[int, ...]
    busy: dict[int, str]
    """Port to the reason it cannot be had."""
    given_out: tuple[int, int] = (32768, 60999)
    """What the kernel takes for connections of programs that name none."""


def read_ports(root: Path, named: Sequence[int]) -> Ports:
    """Try to listen on each of them for a moment, on all addresses."""
    words = text(root, "proc/sys/net/ipv4/ip_local_port_range").split()
    given = (int(words[0]), int(words[1])) if len(words) == 2 else (32768, 60999)
    busy = {port: problem for port in named if (problem := _try_port(port))}
    return Ports(named=tuple(named), busy=busy, given_out=given)


def judge_ports(ports: Ports) -> Iterator[Check]:
    """``ports``."""
    name = "ports"
    if not ports.named:
        yield skipped(name, "no ports are named: another node is the first one, or there is one node only")
        return
    free = [port for port in ports.named if port not in ports.busy]
    if not free:
        taken = ", ".join(f"{port} ({why})" for port, why in ports.busy.items())
        text = f"none of the {len(ports.named)} ports is free: {taken}"
        yield failed(name, text, "end what listens there (ss -ltnp), or submit again: other ports are chosen then")
        return
    low, high = ports.given_out
    inside = [port for port in free if low <= port <= high]
    if len(inside) == len(free):
        text = f"port {free[0]} lies in {low}-{high}, which the kernel gives to any program that connects"
        yield warned(name, text, "name ports outside net.ipv4.ip_local_port_range", free=free)
        return
    yield passed(name, f"{len(free)} of {len(ports.named)} ports are free", free=",".join(map(str, free)))


def _try_port(port: int) -> str:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as trying:
        trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trying.bind(("", port))
            trying.listen(1)
        except (OSError, OverflowError) as error:
            number = getattr(error, "errno", None)
            return "in use" if number == errno.EADDRINUSE else os.strerror(number) if number else str(error)
    return ""
