"""The fence of the clean room: a proxy that lets declared hosts through and writes down everything that was asked for.

It listens on a Unix socket, which is a file and so reaches into a network namespace that has no other way out
(:mod:`orbit.release.gate.inside` stands there). Tunnels (CONNECT) stay closed to it: what is inside them is encrypted
end to end, and verified by whoever asked, by hash. A proxy of the host's own is used for the way on.

Forms: RFC 9110 section 9.3.6 (CONNECT), RFC 9112 section 3.2.2 (absolute-form for plain http).
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import socket
import socketserver
import threading
from collections import Counter
from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from orbit.errors import InputError

SOCKET = "fence"
HEAD_BYTES = 64 << 10
PIECE_BYTES = 64 << 10
CONNECT_S = 30.0
IDLE_S = 900.0
HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
ADDRESS = re.compile(rb"https?://([A-Za-z0-9.-]+)")
HTTP, HTTPS = 80, 443
DROPPED = (b"proxy-connection:", b"proxy-authorization:", b"connection:", b"keep-alive:")


@dataclass(frozen=True, slots=True)
class Allowed:
    """Hosts that may be reached."""

    hosts: frozenset[str]
    """Names; one that starts with a dot stands for every name below it."""

    def __contains__(self, host: str) -> bool:
        name = host.lower().rstrip(".")
        return name in self.hosts or any(name.endswith(end) for end in self.hosts if end.startswith("."))


@dataclass(frozen=True, slots=True)
class Seen:
    """What was asked for."""

    contacted: Mapping[str, int]
    refused: Mapping[str, int]
    failed: Mapping[str, str]
    """Declared hosts that could not be reached, with the reason."""


def hosts_in(data: bytes) -> frozenset[str]:
    """Hosts of the addresses in a file of data; lines that are remarks (``#``) are left out."""
    lines = [line for line in data.splitlines() if not line.lstrip().startswith(b"#")]
    return frozenset(found.decode().lower().rstrip(".") for found in ADDRESS.findall(b"\n".join(lines)))


def upstream(variables: Mapping[str, str] | None = None) -> tuple[str, int] | None:
    """The proxy that the host's variables name; None without. Raises :class:`InputError` for one with a password."""
    env = os.environ if variables is None else variables
    value = env.get("https_proxy") or env.get("HTTPS_PROXY") or env.get("all_proxy") or env.get("ALL_PROXY") or ""
    if not value:
        return None
    parts = urlsplit(value if "//" in value else f"http://{value}")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise InputError(
            f"https_proxy: {parts.scheme}://{parts.hostname}: the clean room cannot go through this proxy",
            fix="name an http proxy without a password, http://HOST:PORT",
        )
    return parts.hostname, parts.port or HTTP


class Fence:
    """The proxy while it runs: see :func:`fence`."""

    def __init__(self, path: Path, allowed: Allowed, onward: tuple[str, int] | None) -> None:
        self.path = path
        """Of the socket."""
        self.allowed, self.onward = allowed, onward
        self._lock = threading.Lock()
        self._contacted: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._failed: dict[str, str] = {}

    def seen(self) -> Seen:
        """Everything up to now."""
        with self._lock:
            return Seen(dict(sorted(self._contacted.items())), dict(sorted(self._refused.items())), dict(self._failed))

    def open(self, host: str, port: int) -> socket.socket | None:
        """A connection to a declared host, or to the host's own proxy for it; None, and written down, when not."""
        name = host.lower().rstrip(".")
        allowed = HOST.fullmatch(name) is not None and name in self.allowed
        with self._lock:
            (self._contacted if allowed else self._refused)[name[:200]] += 1
        if not allowed:
            return None
        try:
            return socket.create_connection(self.onward or (name, port), CONNECT_S)
        except OSError as error:
            with self._lock:
                self._failed[name] = error.strerror or str(error)
            raise


@contextlib.contextmanager
def fence(folder: Path, allowed: Collection[str], onward: tuple[str, int] | None) -> Generator[Fence]:
    """A proxy that lets ``allowed`` through while the block runs; its socket is in ``folder``."""
    wall = Fence(folder / SOCKET, Allowed(frozenset(allowed)), onward)
    # a socket's address has room for 107 bytes, and a folder's path may be longer
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with _Server(f"/proc/self/fd/{handle}/{SOCKET}", wall) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                yield wall
            finally:
                server.shutdown()
    finally:
        os.close(handle)
        wall.path.unlink(missing_ok=True)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, path: str, wall: Fence) -> None:
        self.wall = wall
        super().__init__(path, _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that broke is the client's to notice."""


class _Handler(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        """One request: judged by its host, then passed on as it is."""
        client: socket.socket = self.request
        client.settimeout(CONNECT_S)
        head, rest = _head(client)
        words = head.split(b"\r\n", 1)[0].split()
        if len(words) != 3:
            _answer(client, "400 Bad Request")
            return
        method, target, _version = (word.decode("latin-1") for word in words)
        connect = method == "CONNECT"
        try:
            parts = urlsplit(f"//{target}" if connect else target)
            host, port = parts.hostname or "", parts.port or (HTTPS if connect else HTTP)
        except ValueError:
            host, port = "", 0
        try:
            other = self.server.wall.open(host, port)
        except OSError:
            _answer(client, "502 Bad Gateway")
            return
        if other is None:
            _answer(client, "403 Forbidden")
            return
        with other:
            if connect and self.server.wall.onward is None:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                first = rest
            else:
                first = (head + b"\r\n\r\n" if connect else _onward(head, parts.geturl(), self.server.wall)) + rest
            other.sendall(first)
            _pump(client, other)


def _head(client: socket.socket) -> tuple[bytes, bytes]:
    """(the request's head without the blank line, what came behind it)."""
    data = b""
    while b"\r\n\r\n" not in data and len(data) < HEAD_BYTES:
        piece = client.recv(PIECE_BYTES)
        if not piece:
            break
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _onward(head: bytes, address: str, wall: Fence) -> bytes:
    """A plain http request as the next one wants it: a server its path, a proxy the whole address. The last of both."""
    first, *fields = head.split(b"\r\n")
    method, _target, version = first.split()
    parts = urlsplit(address)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    target = address if wall.onward else path
    kept = [field for field in fields if not field.lower().startswith(DROPPED)]
    lines = [b" ".join((method, target.encode("latin-1"), version)), *kept, b"Connection: close"]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _answer(client: socket.socket, status: str) -> None:
    head = f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    with contextlib.suppress(OSError):
        client.sendall(head.encode("ascii"))


def _pump(one: socket.socket, other: socket.socket) -> None:
    """Pass bytes both ways until both sides are done, or nothing came for long."""
    for end in (one, other):
        end.settimeout(IDLE_S)
    with selectors.DefaultSelector() as waiting:
        waiting.register(one, selectors.EVENT_READ, other)
        waiting.register(other, selectors.EVENT_READ, one)
        while waiting.get_map():
            ready = waiting.select(IDLE_S)
            if not ready:
                return
            for key, _events in ready:
                source, target = key.fileobj, key.data
                assert isinstance(source, socket.socket)
                piece = source.recv(PIECE_BYTES)
                if piece:
                    target.sendall(piece)
                    continue
                waiting.unregister(source)
                with contextlib.suppress(OSError):
                    target.shutdown(socket.SHUT_WR)
