"""orbit.core.fetch against a small server of our own: whole or not at all, resumed, and honest when it fails."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.fetch import fetch
from orbit.errors import CheckFailed, MissingError

BODY = bytes(range(256)) * 40
SHA256 = hashlib.sha256(BODY).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves BODY; ``cut`` answers are ended early."""

    ranges: bool = True
    cut: int = 0
    seen: list[str]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range", "")
        self.server.seen.append(wanted)
        if not self.path.endswith("thing.tar.gz"):
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.server.ranges else 0
        if start > len(BODY):
            self.send_error(416)
            return
        body = BODY[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.server.cut:
            self.server.cut -= 1
            body = body[: len(body) // 2]
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Quiet."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = Server(("127.0.0.1", 0), Handler)
    server.seen = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def url(server: Server, name: str = "thing.tar.gz") -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/packages/{name}"


def test_a_file_arrives_once(server: Server, tmp_path: Path) -> None:
    dest = tmp_path / "new" / "thing.tar.gz"
    assert fetch(url(server), SHA256, dest, Silent()) == dest
    assert dest.read_bytes() == BODY
    fetch(url(server), SHA256, dest, Silent())
    assert len(server.seen) == 1
    assert [path.name for path in dest.parent.iterdir()] == ["thing.tar.gz"]


def test_a_broken_connection_is_continued(server: Server, tmp_path: Path) -> None:
    server.cut = 2
    fetch(url(server), SHA256, tmp_path / "thing", Silent())
    assert (tmp_path / "thing").read_bytes() == BODY
    assert server.seen[0] == ""
    assert server.seen[1] == f"bytes={len(BODY) // 2}-"


def test_a_server_without_ranges_sends_it_all_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / ".thing.partial").write_bytes(BODY[:100])
    server.ranges = False
    fetch(url(server), SHA256, tmp_path / "thing", Silent())
    assert (tmp_path / "thing").read_bytes() == BODY


def test_a_partial_file_that_is_too_long_is_begun_anew(server: Server, tmp_path: Path) -> None:
    (tmp_path / ".thing.partial").write_bytes(BODY + b"more")
    fetch(url(server), SHA256, tmp_path / "thing", Silent())
    assert (tmp_path / "thing").read_bytes() == BODY


def test_a_connection_that_always_breaks_keeps_what_came(server: Server, tmp_path: Path) -> None:
    server.cut = 100
    with pytest.raises(MissingError, match=r"thing\.tar\.gz") as caught:
        fetch(url(server), SHA256, tmp_path / "thing", Silent())
    assert "kept" in caught.value.fix
    server.cut = 0
    fetch(url(server), SHA256, tmp_path / "thing", Silent())
    assert (tmp_path / "thing").read_bytes() == BODY


def test_other_bytes_than_the_lock_says_are_not_kept(server: Server, tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match="sha256"):
        fetch(url(server), "0" * 64, tmp_path / "thing", Silent())
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_not_there_and_a_server_that_is_not_there(server: Server, tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"gone\.whl: the server answers 404"):
        fetch(url(server, "gone.whl"), SHA256, tmp_path / "thing", Silent())
    address = url(server)
    server.shutdown()
    server.server_close()
    with pytest.raises(MissingError, match=r"thing\.tar\.gz: cannot be fetched"):
        fetch(address, SHA256, tmp_path / "thing", Silent())
    assert not (tmp_path / "thing").exists()
