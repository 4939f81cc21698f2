"""The first process in the clean room: takes the network away, leaves a way to the fence, and becomes the command.

Started as a program of its own (:func:`orbit.core.proc.own_python`) with an order as JSON on standard input. It makes
a network namespace in which nothing but the loopback is, listens there for the proxy's clients and passes them on to
the fence's socket. The environment of the command is the order's, word for word: nothing of the caller's.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import struct
import sys
import threading

import msgspec

from orbit.core.records import Record

PR_SET_PDEATHSIG = 1
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1
LOOPBACK = "127.0.0.1"
PROXY_PORT = 3128
"""In the namespace: nobody else is there."""
PIECE_BYTES = 64 << 10
FAILED = 125
"""Status when the room could not be closed."""
NOT_FOUND = 127
PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")


class Order(Record, frozen=True, kw_only=True):
    """What shall run, and how."""

    argv: tuple[str, ...]
    cwd: str
    environment: dict[str, str]
    socket: str
    """Of the fence; empty: no proxy at all."""
    namespace: bool
    """False: no namespace, the proxy listens on a port of the host."""


def main() -> None:
    """Run the order; does not return."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    try:
        if order.namespace:
            leave_network()
        proxy = open_way(order) if order.socket else ""
    except OSError as error:
        sys.stderr.write(f"the clean room cannot be closed: {error.strerror or error}\n")
        sys.exit(FAILED)
    start(order, proxy)


def open_way(order: Order) -> str:
    """Have a child pass connections on to the fence; returns the address for clients of a proxy."""
    listener = socket.create_server((LOOPBACK, PROXY_PORT if order.namespace else 0), backlog=128)
    port = listener.getsockname()[1]
    command = os.getpid()
    if os.fork() == 0:
        try:
            serve(listener, order.socket, command)
        finally:
            os._exit(0)
    listener.close()
    return f"http://{LOOPBACK}:{port}"


def start(order: Order, proxy: str) -> None:
    """Become the command."""
    environment = dict(order.environment)
    if proxy:
        environment |= dict.fromkeys(PROXIES, proxy) | {"no_proxy": "", "NO_PROXY": ""}
    os.chdir(order.cwd)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    try:
        os.execvpe(order.argv[0], list(order.argv), environment)  # noqa: S606 - this process is the one way's child
    except OSError as error:
        sys.stderr.write(f"{order.argv[0]}: {error.strerror}\n")
        sys.exit(NOT_FOUND)


def leave_network() -> None:
    """A network namespace of our own, with its loopback up. Raises OSError where that is not allowed."""
    os.unshare(os.CLONE_NEWNET)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))


def serve(listener: socket.socket, fence: str, command: int) -> None:
    """Pass every connection on to the fence until the command is gone."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != command:
        return
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        client, _address = listener.accept()
        threading.Thread(target=_pass, args=(client, fence), daemon=True).start()


def connect(path: str) -> socket.socket:
    """A connection to the socket at ``path``, however long that is (an address has room for 107 bytes)."""
    folder, _, name = path.rpartition("/")
    wall = socket.socket(socket.AF_UNIX)
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        wall.connect(f"/proc/self/fd/{handle}/{name}")
    except OSError:
        wall.close()
        raise
    finally:
        os.close(handle)
    return wall


def _pass(client: socket.socket, fence: str) -> None:
    with client, contextlib.suppress(OSError), connect(fence) as wall:
        back = threading.Thread(target=_copy, args=(wall, client), daemon=True)
        back.start()
        _copy(client, wall)
        back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(PIECE_BYTES):
            target.sendall(piece)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
