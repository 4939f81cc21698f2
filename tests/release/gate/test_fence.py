"""The fence: declared hosts are reached, others are not, and all of it is written down."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from orbit.errors import InputError
from orbit.release.gate.fence import Allowed, fence, hosts_in, upstream
from orbit.release.gate.inside import connect


class Page(BaseHTTPRequestHandler):
    """Answers with the path that was asked for, and who was to be kept."""

    def do_GET(self) -> None:
        """The path."""
        body = f"{self.path} {self.headers.get('Proxy-Connection')} {self.headers.get('X-Own')}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called
        """Nothing."""


@pytest.fixture
def server() -> Iterator[int]:
    made = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made.server_port
    made.shutdown()
    made.server_close()


def ask(path: Path, *pieces: bytes) -> bytes:
    with connect(str(path)) as client:
        client.settimeout(20)
        for piece in pieces:
            client.sendall(piece)
        client.shutdown(socket.SHUT_WR)
        said = b""
        while data := client.recv(65536):
            said += data
        return said


def test_a_declared_host_is_reached_by_plain_http(server: int, tmp_path: Path) -> None:
    with fence(tmp_path, {"127.0.0.1"}, None) as wall:
        request = f"GET http://127.0.0.1:{server}/a?b=c HTTP/1.1\r\nHost: x\r\nX-Own: 1\r\nProxy-Connection: y\r\n\r\n"
        said = ask(wall.path, request.encode())
        assert said.startswith(b"HTTP/1.0 200")
        assert said.endswith(b"/a?b=c None 1")
        assert wall.seen().contacted == {"127.0.0.1": 1}
        assert wall.seen().refused == {}


def test_and_through_a_tunnel(server: int, tmp_path: Path) -> None:
    with fence(tmp_path, {"127.0.0.1"}, None) as wall:
        request = f"CONNECT 127.0.0.1:{server} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        said = ask(wall.path, request, b"GET /inside HTTP/1.0\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.0 200")
        assert b"/inside" in said


@pytest.mark.parametrize(
    "request_line",
    [
        "CONNECT example.com:443 HTTP/1.1",
        "GET http://example.com/ HTTP/1.1",
        "GET http://127.0.0.1.example.com/ HTTP/1.1",
        "GET http://user@example.com:80/ HTTP/1.1",
        "CONNECT [::1]:443 HTTP/1.1",
        "GET /relative HTTP/1.1",
        "GET http://127.0.0.1:99999999/ HTTP/1.1",
    ],
)
def test_nothing_else_is(request_line: str, tmp_path: Path) -> None:
    with fence(tmp_path, {"127.0.0.1"}, None) as wall:
        assert ask(wall.path, f"{request_line}\r\n\r\n".encode()).startswith(b"HTTP/1.1 403")
        assert wall.seen().contacted == {}
        assert sum(wall.seen().refused.values()) == 1


@pytest.mark.parametrize("data", [b"", b"\r\n\r\n", b"nonsense\r\n\r\n", b"\xff\x00" * 40_000])
def test_what_is_no_request_ends_no_fence(data: bytes, server: int, tmp_path: Path) -> None:
    with fence(tmp_path, {"127.0.0.1"}, None) as wall:
        with contextlib.suppress(OSError):  # the fence may hang up while the rest is sent
            assert ask(wall.path, data)[:12] in (b"", b"HTTP/1.1 400")
        request = f"GET http://127.0.0.1:{server}/still HTTP/1.0\r\n\r\n".encode()
        assert b"/still" in ask(wall.path, request)


def test_a_host_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with fence(tmp_path, {"127.0.0.1"}, None) as wall:
            assert ask(wall.path, f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode()).startswith(b"HTTP/1.1 502")
            assert "127.0.0.1" in wall.seen().failed


def test_a_proxy_of_the_host_is_asked_with_the_whole_address(server: int, tmp_path: Path) -> None:
    with fence(tmp_path, {"example.com"}, ("127.0.0.1", server)) as wall:
        said = ask(wall.path, b"GET http://example.com/a HTTP/1.0\r\n\r\n")
        assert said.endswith(b"http://example.com/a None None")
        assert wall.seen().contacted == {"example.com": 1}


def test_its_socket_may_lie_deep_and_goes_with_it(server: int, tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    with fence(deep, {"127.0.0.1"}, None) as wall:
        request = f"GET http://127.0.0.1:{server}/deep HTTP/1.0\r\n\r\n".encode()
        assert b"/deep" in ask(wall.path, request)
    assert list(deep.iterdir()) == []


def test_a_dot_stands_for_everything_below() -> None:
    allowed = Allowed(frozenset({"example.com", ".example.org"}))
    assert [name in allowed for name in ("example.com", "EXAMPLE.COM.", "a.example.com", "a.example.org")] == [
        True, True, False, True,
    ]  # fmt: skip
    assert "example.org" not in allowed
    assert "badexample.org" not in allowed


def test_hosts_of_data_without_its_remarks() -> None:
    data = b'# see https://remark.example\nurl = "https://Files.Example.com/a.whl"\nx = "http://b.example:8080/c"\n'
    assert hosts_in(data) == {"files.example.com", "b.example"}


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({}, None),
        ({"https_proxy": "http://proxy.example:3128"}, ("proxy.example", 3128)),
        ({"HTTPS_PROXY": "proxy.example"}, ("proxy.example", 80)),
        ({"https_proxy": "", "ALL_PROXY": "http://p.example:1"}, ("p.example", 1)),
    ],
)
def test_the_hosts_own_proxy(variables: dict[str, str], found: tuple[str, int] | None) -> None:
    assert upstream(variables) == found


def test_a_proxy_with_a_password_is_not_for_the_clean_room() -> None:
    with pytest.raises(InputError, match="cannot go through"):
        upstream({"https_proxy": "http://ann:secret@proxy.example:3128"})
