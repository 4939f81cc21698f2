"""A small web server of files, with range requests and with every way of answering them wrongly."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class WebServer(ThreadingHTTPServer):
    """Serves ``files`` by path. ``fault`` spoils the answers; see :class:`Handler`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.redirects: dict[str, str] = {}
        self.fault = ""
        self.waiting = threading.Event()
        self.seen: list[str] = []
        """Ranges that were asked for."""

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away early is part of the tests."""

    @property
    def url(self) -> str:
        """Of the root, without a slash at its end."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    """Ranges of one part: ``bytes=a-b`` and ``bytes=-n``."""

    protocol_version = "HTTP/1.1"
    server: WebServer

    def do_GET(self) -> None:
        """Answer as the server's fault wants."""
        wanted = self.headers.get("Range", "")
        self.server.seen.append(wanted)
        if target := self.server.redirects.get(self.path):
            self._answer(302, b"", Location=target)
            return
        data = self.server.files.get(self.path)
        if data is None:
            self._answer(404, b"no")
            return
        if self.server.fault == "whole" or not wanted:
            self._answer(200, data)
            return
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start = int(first) if first else max(0, len(data) - int(last))
        stop = min(int(last) + 1, len(data)) if first else len(data)
        body, total, told = data[start:stop], len(data), start
        match self.server.fault:
            case "short":
                body = body[:-1]
            case "shifted":
                told = start + 1
            case "grown":
                total = len(data) + len(self.server.seen)
            case "endless":
                body = body + b"\0" * (1 << 20)
            case "silent":
                self._answer(206, body)
                return
        self._answer(206, body, **{"Content-Range": f"bytes {told}-{told + len(data[start:stop]) - 1}/{total}"})

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.server.fault == "slow":
            self.wfile.write(body[:1])
            self.server.waiting.wait(20)
            self.close_connection = True
            return
        if self.server.fault == "cut" and body:
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
            return
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Quiet."""


@contextmanager
def serving() -> Iterator[WebServer]:
    """A running server; ended with the block."""
    server = WebServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.waiting.set()
        server.shutdown()
        server.server_close()
        thread.join()
