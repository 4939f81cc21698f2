"""A registry in memory that speaks the OCI distribution API, and can be told to do every wrong thing once or often.

Written for the tests from the specification; no code of the client is in it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

USER, PASSWORD = "ann", "open:sesame"


@dataclass
class Fault:
    """What to do wrong with the next ``times`` requests of ``method`` whose path matches ``path`` (after ``skip``)."""

    method: str
    path: str
    do: str
    """``status``, ``drop``, ``lose``, ``lie``, ``shift``, ``whole``, ``range``, ``redirect``, ``late``, ``digest``."""
    times: int = 1
    skip: int = 0
    at: int = 0
    status: int = 500
    headers: dict[str, str] = field(default_factory=dict)


class FakeRegistry(ThreadingHTTPServer):
    """The server and everything it has."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.blobs: dict[tuple[str, str], bytes] = {}
        self.manifests: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.uploads: dict[str, bytearray] = {}
        self.faults: list[Fault] = []
        self.log: list[tuple[str, str, dict[str, str]]] = []
        self.auth = ""
        """``basic``, ``bearer`` or nothing."""
        self.token_uses = 1000
        """How many requests one token is good for."""
        self.tokens: dict[str, int] = {}
        self.token_log: list[tuple[str, dict[str, list[str]], str]] = []
        self.resumes = True
        """False: an upload whose connection broke is forgotten, as docker's registry does."""
        self.one_chunk = False
        """Refuse a second chunk of an upload."""
        self.least_chunk = ""
        """What OCI-Chunk-Min-Length says."""
        self.lock = threading.Lock()
        self.count = 0

    @property
    def host(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.server_address[1]}"

    def fault(self, method: str, path: str, do: str, **more: Any) -> None:
        """Plan a fault."""
        self.faults.append(Fault(method, path, do, **more))

    def asked(self, method: str, path: str = "") -> list[dict[str, str]]:
        """The headers of every such request."""
        return [headers for verb, where, headers in self.log if verb == method and re.search(path, where)]

    def put_blob(self, repository: str, data: bytes) -> str:
        """Have a blob; gives its digest."""
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.blobs[repository, digest] = data
        return digest

    def put_manifest(self, repository: str, tag: str, document: Any, media_type: str) -> str:
        """Have a manifest; gives its digest."""
        data = json.dumps(document).encode()
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.manifests[repository, tag] = self.manifests[repository, digest] = (media_type, data)
        return digest

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is part of the tests."""


class _Gone(Exception):
    """Close the connection without a word."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeRegistry

    def handle_any(self) -> None:
        """One request."""
        parts = urlsplit(self.path)
        self.body_left = int(self.headers.get("Content-Length") or 0)
        self.query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        with self.server.lock:
            self.server.log.append((self.command, self.path, dict(self.headers.items())))
        try:
            self.fault = self._fault(parts.path)
            if parts.path == "/token":
                self._token(parse_qs(parts.query))
                return
            if not self._allowed():
                return
            if self._spoiled():
                return
            self._route(parts.path)
        except _Gone:
            self.close_connection = True

    def __getattr__(self, name: str) -> Any:
        """The server looks for ``do_GET`` and its like."""
        if name.startswith("do_"):
            return self.handle_any
        raise AttributeError(name)

    def _fault(self, path: str) -> Fault | None:
        with self.server.lock:
            for fault in self.server.faults:
                if fault.times and fault.method == self.command and re.search(fault.path, path):
                    if fault.skip:
                        fault.skip -= 1
                        continue
                    fault.times -= 1
                    return fault
        return None

    def _spoiled(self) -> bool:
        """Faults that are whole answers."""
        fault = self.fault
        if fault is None:
            return False
        if fault.do == "status":
            self._read()
            self._answer(fault.status, json.dumps({"errors": [{"code": "FAULT", "message": "as told"}]}).encode(),
                         fault.headers)  # fmt: skip
        elif fault.do == "redirect":
            self._answer(307, b"", fault.headers)
        elif fault.do == "drop" and self.command not in ("GET", "PATCH"):
            raise _Gone
        else:
            return False
        return True

    # --- authorization

    def _allowed(self) -> bool:
        server, sent = self.server, self.headers.get("Authorization", "")
        if server.auth == "basic":
            if sent == "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode():
                return True
            challenge = 'Basic realm="fake"'
        elif server.auth == "bearer":
            token = sent.removeprefix("Bearer ")
            with server.lock:
                if server.tokens.get(token, 0) > 0:
                    server.tokens[token] -= 1
                    return True
            challenge = f'Bearer realm="http://{server.host}/token",service="fake, really",scope="x"'
        else:
            return True
        self._read()
        self._answer(401, b'{"errors":[{"code":"UNAUTHORIZED","message":"who?"}]}', {"WWW-Authenticate": challenge})
        return False

    def _token(self, query: dict[str, list[str]]) -> None:
        body = self._read().decode()
        if self._spoiled():
            return
        sent = self.headers.get("Authorization", "")
        self.server.token_log.append((self.command, query or parse_qs(body), sent))
        right = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if sent not in ("", right):
            self._answer(401, b"{}")
            return
        with self.server.lock:
            self.server.count += 1
            token = f"token{self.server.count}"
            self.server.tokens[token] = self.server.token_uses
        self._answer(200, json.dumps({"token": token, "expires_in": 300}).encode())

    # --- what a registry does

    def _route(self, path: str) -> None:
        if path == "/v2/":
            self._answer(200, b"{}")
            return
        for pattern, act in (
            (r"/v2/(.+)/blobs/uploads/", self._start),
            (r"/v2/(.+)/blobs/uploads/([^/]+)", self._upload),
            (r"/v2/(.+)/blobs/(sha256:[0-9a-f]{64})", self._blob),
            (r"/v2/(.+)/manifests/([^/]+)", self._manifest),
        ):
            if found := re.fullmatch(pattern, path):
                act(*found.groups())
                return
        self._answer(404, b"{}")

    def _start(self, repository: str) -> None:
        mount, source = self.query.get("mount"), self.query.get("from")
        if mount and (source, mount) in self.server.blobs:
            self.server.blobs[repository, mount] = self.server.blobs[source or "", mount]
            self._answer(201, b"", {"Docker-Content-Digest": mount})
            return
        with self.server.lock:
            self.server.count += 1
            name = f"u{self.server.count}"
        self.server.uploads[name] = bytearray()
        self._place(202, repository, name)

    def _upload(self, repository: str, name: str) -> None:
        if self.fault and self.fault.do == "lose":
            self.server.uploads.clear()
        upload = self.server.uploads.get(name)
        if upload is None:
            self._read()
            self._answer(404, b'{"errors":[{"code":"BLOB_UPLOAD_UNKNOWN","message":"gone"}]}')
        elif self.command == "GET":
            self._place(204, repository, name)
        elif self.command == "DELETE":
            del self.server.uploads[name]
            self._answer(204, b"")
        elif self.command == "PATCH":
            self._patch(repository, name, upload)
        else:
            self._commit(repository, name, upload)

    def _patch(self, repository: str, name: str, upload: bytearray) -> None:
        start = int(self.headers["Content-Range"].partition("-")[0])
        if start != len(upload) or (self.server.one_chunk and upload):
            self._read()
            self._place(416, repository, name)
            return
        if self.fault and self.fault.do == "drop":
            upload += self._read(self.fault.at)
            if not self.server.resumes:
                del self.server.uploads[name]
            raise _Gone
        data = self._read()
        if self.fault and self.fault.do == "lie":
            data = bytes([data[0] ^ 1]) + data[1:]
        upload += data
        if self.fault and self.fault.do == "late":
            raise _Gone
        end = self.fault.at if self.fault and self.fault.do == "range" else len(upload) - 1
        self._place(202, repository, name, end)

    def _commit(self, repository: str, name: str, upload: bytearray) -> None:
        upload += self._read()
        digest = f"sha256:{hashlib.sha256(upload).hexdigest()}"
        if digest != self.query["digest"]:
            del self.server.uploads[name]
            self._answer(400, b'{"errors":[{"code":"DIGEST_INVALID","message":"no"}]}')
            return
        if not (self.fault and self.fault.do == "lie"):
            self.server.blobs[repository, digest] = bytes(self.server.uploads.pop(name))
        if self.fault and self.fault.do == "late":
            raise _Gone
        told = "sha256:" + "0" * 64 if self.fault and self.fault.do == "digest" else digest
        self._answer(201, b"", {"Docker-Content-Digest": told})

    def _place(self, status: int, repository: str, name: str, end: int | None = None) -> None:
        last = max(0, len(self.server.uploads[name]) - 1) if end is None else end
        where = f"/v2/{repository}/blobs/uploads/{name}?state=secret{len(self.server.log)}"
        least = {"OCI-Chunk-Min-Length": self.server.least_chunk} if self.server.least_chunk else {}
        self._answer(status, b"", {"Location": where, "Range": f"0-{last}", **least})

    def _blob(self, repository: str, digest: str) -> None:
        data = self.server.blobs.get((repository, digest))
        if data is None:
            self._answer(404, b'{"errors":[{"code":"BLOB_UNKNOWN","message":"none"}]}')
            return
        do = self.fault.do if self.fault else ""
        start, status, headers = 0, 200, {"Docker-Content-Digest": digest}
        wanted = re.fullmatch(r"bytes=([0-9]+)-", self.headers.get("Range", ""))
        if wanted and do != "whole":
            start, status = int(wanted[1]), 206
            if start >= len(data):
                self._answer(416, b"")
                return
            told = start + (7 if do == "shift" else 0)
            headers["Content-Range"] = f"bytes {told}-{len(data) - 1}/{len(data)}"
        body = data[start:]
        if do == "lie":
            body = bytes([body[0] ^ 1]) + body[1:]
        elif do == "longer":
            body += b"more"
        self._answer(status, body, headers, stop=self.fault.at if self.fault and do == "drop" else None)

    def _manifest(self, repository: str, name: str) -> None:
        if self.command == "PUT":
            data, kind = self._read(), self.headers["Content-Type"]
            digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
            named = re.findall(rb"sha256:[0-9a-f]{64}", data)
            if any((repository, item.decode()) not in self.server.blobs for item in named):
                self._answer(400, b'{"errors":[{"code":"MANIFEST_BLOB_UNKNOWN","message":"blob"}]}')
                return
            self.server.manifests[repository, name] = self.server.manifests[repository, digest] = (kind, data)
            self._answer(201, b"", {"Docker-Content-Digest": digest})
            return
        kind, data = self.server.manifests.get((repository, name), ("", b""))
        if not data:
            self._answer(404, b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"none"}]}')
            return
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        if self.fault and self.fault.do == "lie":
            data = data.replace(b"{", b"{ ", 1)
        self._answer(200, data, {"Content-Type": kind, "Docker-Content-Digest": digest})

    # --- bytes

    def _read(self, limit: int | None = None) -> bytes:
        data = self.rfile.read(self.body_left if limit is None else min(limit, self.body_left))
        self.body_left -= len(data)
        return data

    def _answer(
        self, status: int, body: bytes, headers: dict[str, str] | None = None, *, stop: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body[:stop])
        if stop is not None:
            self.wfile.flush()
            raise _Gone

    def log_message(self, *_words: object) -> None:
        """Quiet."""


@contextmanager
def serving(registry: FakeRegistry) -> Iterator[FakeRegistry]:
    """Serve until the block ends."""
    thread = threading.Thread(target=registry.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        registry.shutdown()
        registry.server_close()
        thread.join()
        time.sleep(0)
