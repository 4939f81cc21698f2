"""A forge: git repositories over HTTPS, by git's own server program, with a certificate made for the occasion."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


class Forge(ThreadingHTTPServer):
    """Serves the bare repositories under ``root``."""

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.root = root
        self.certificate = root / "certificate.pem"
        self.asked: list[str] = []
        """First lines of requests."""
        self.passwords: list[str] = []
        """What clients said who they are."""
        key = root / "key.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", self.certificate,
             "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
            check=True, capture_output=True,
        )  # fmt: skip
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that do not trust the certificate are part of the tests."""

    @property
    def url(self) -> str:
        """Without a slash at its end."""
        return f"https://localhost:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    """Hands requests to ``git http-backend``."""

    server: Forge

    def do_GET(self) -> None:
        """Let git answer; what is below ``private`` wants a password."""
        self.server.asked.append(self.requestline)
        if password := self.headers.get("Authorization"):
            self.server.passwords.append(password)
        path, _, query = self.path.partition("?")
        if path.startswith("/private"):
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="private"')
            self.end_headers()
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        said = self.headers.get
        env = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.server.root), "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_ADDR": "127.0.0.1",
            "CONTENT_TYPE": said("Content-Type") or "", "GIT_PROTOCOL": said("Git-Protocol") or "",
            "HTTP_CONTENT_ENCODING": said("Content-Encoding") or "", "CONTENT_LENGTH": str(len(body)),
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }  # fmt: skip
        answer = subprocess.run(["git", "http-backend"], input=body, capture_output=True, env=env, check=False).stdout
        head, _, content = answer.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        """The same."""
        self.do_GET()

    def log_message(self, *args: object) -> None:
        """Quiet."""


@contextmanager
def running(root: Path) -> Iterator[Forge]:
    """A forge that runs; skips where git or openssl cannot do it."""
    for program in ("git", "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    lib = subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True).stdout.strip()
    for helper in ("git-http-backend", "git-remote-https"):
        if not (Path(lib) / helper).exists():
            pytest.skip(f"this git has no {helper}")
    root.mkdir(parents=True)
    forge = Forge(root)
    thread = threading.Thread(target=forge.serve_forever, daemon=True)
    thread.start()
    try:
        yield forge
    finally:
        forge.shutdown()
        forge.server_close()
        thread.join()
