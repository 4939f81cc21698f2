"""HTTP: redirects, proxies, TLS, plain HTTP; what a message may show."""

from __future__ import annotations

import http.server
import shutil
import socket
import ssl
import subprocess
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from orbit.core.console import Silent
from orbit.errors import MissingError, RefusedError
from orbit.image.registry.push import push
from orbit.image.registry.reference import parse_reference
from orbit.image.registry.session import Registry
from orbit.image.registry.transport import Body, Broken, Request, Transport, Untrusted, data_body, proxy_of, shown
from tests.image.registry.conftest import QUICK
from tests.image.registry.fake import FakeRegistry, serving
from tests.image.registry.test_auth import log_in
from tests.image.registry.test_download import DATA, DIGEST, fetch


def test_an_answer_is_read_and_its_connection_serves_again(registry: FakeRegistry, transport: Transport) -> None:
    seen = set()
    for _ in range(3):
        with transport.open(Request("GET", f"http://{registry.host}/v2/", {})) as response:
            assert (response.status, response.read(100)) == (200, b"{}")
            seen.add(response._link)
    assert len(seen) == 1


def test_a_kept_connection_that_the_server_closed_is_replaced(registry: FakeRegistry, transport: Transport) -> None:
    with transport.open(Request("GET", f"http://{registry.host}/v2/", {})) as response:
        kept = response._link
    kept.sock.shutdown(socket.SHUT_RDWR)
    with transport.open(Request("GET", f"http://{registry.host}/v2/", {})) as response:
        assert response.status == 200


def test_a_redirect_to_another_host_gets_no_authorization(
    registry: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(FakeRegistry()) as storage:
        storage.put_blob("a", DATA)
        place = f"http://{storage.host}/v2/a/blobs/{DIGEST}?signature=secret"
        registry.fault("GET", "/blobs/sha256", "redirect", headers={"Location": place}, times=2)
        storage.fault("GET", "/blobs", "drop", at=1_000_000)
        registry.auth = "basic"
        log_in(monkeypatch, tmp_path, registry.host)
        (tmp_path / "got").mkdir()
        assert fetch(registry, tmp_path / "got").read_bytes() == DATA
        first, second = storage.asked("GET")
        assert "Authorization" not in first
        assert second["Range"] == "bytes=1000000-"
        assert all("Authorization" in headers for headers in registry.asked("GET", "/blobs"))


def test_redirects_end(registry: FakeRegistry, transport: Transport) -> None:
    registry.fault("GET", "/v2/", "redirect", headers={"Location": "/v2/"}, times=100)
    with pytest.raises(MissingError, match="more than 5 redirects"):
        transport.open(Request("GET", f"http://{registry.host}/v2/", {}))


def test_plain_http_leaves_this_machine_only_when_allowed() -> None:
    with pytest.raises(RefusedError, match="plain HTTP to another machine"):
        Transport().open(Request("GET", "http://registry.example.org/v2/", {}))
    with pytest.raises(MissingError, match="not an http address"):
        Transport().open(Request("GET", "file:///etc/passwd", {}))


def test_an_answer_before_the_body_was_read_is_heard() -> None:
    """A server that refuses a large body answers and closes while it is still sent."""
    server = socket.create_server(("127.0.0.1", 0))

    def refuse() -> None:
        link, _ = server.accept()
        link.recv(1000)
        link.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        link.shutdown(socket.SHUT_WR)
        while link.recv(1 << 20):
            pass
        link.close()

    thread = threading.Thread(target=refuse, daemon=True)
    thread.start()
    body = Body(50 << 20, lambda: (bytes(1 << 20) for _ in range(50)))
    with Transport().open(Request("PATCH", f"http://127.0.0.1:{server.getsockname()[1]}/", {}, body)) as response:
        assert response.status == 413
    thread.join()
    server.close()


def test_nothing_listens_and_no_such_host() -> None:
    with pytest.raises(Broken, match="Connection refused") as caught:
        Transport().open(Request("GET", "http://127.0.0.1:1/v2/", {}))
    assert caught.value.reached is False
    with pytest.raises(Untrusted, match="no such host"):
        Transport().open(Request("GET", "https://registry.invalid/v2/", {}))


def test_messages_show_no_secret() -> None:
    assert shown("https://ann:secret@host.org/a/b?state=secret#x") == "https://host.org/a/b"


def test_abort_breaks_who_waits(registry: FakeRegistry) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    transport = Transport()
    threading.Timer(0.2, transport.abort).start()
    with pytest.raises(Broken):
        transport.open(Request("GET", f"http://127.0.0.1:{server.getsockname()[1]}/", {}))
    server.close()


# --- proxies


@pytest.mark.parametrize(
    ("url", "variables", "proxy"),
    [
        ("https://h.org/", {"https_proxy": "http://p:3128"}, "p:3128"),
        ("https://h.org/", {"http_proxy": "http://p:3128"}, None),
        ("http://h.org/", {"http_proxy": "p:3128"}, "p:3128"),
        ("https://h.org/", {"all_proxy": "http://p:1"}, "p:1"),
        ("https://h.org/", {"https_proxy": "http://p:1", "no_proxy": ".org"}, None),
        ("https://h.org/", {"https_proxy": "http://p:1", "no_proxy": "h.com"}, "p:1"),
        ("https://localhost:5000/", {"https_proxy": "http://p:1"}, None),
        ("http://127.0.0.1:5000/", {"http_proxy": "http://p:1"}, None),
    ],
)
def test_which_proxy(monkeypatch: pytest.MonkeyPatch, url: str, variables: dict[str, str], proxy: str | None) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = proxy_of(urlsplit(url))
    assert (found.netloc if found else None) == proxy


def test_plain_http_through_a_proxy(registry: FakeRegistry, layout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://{registry.host}")
    with Registry(parse_reference("registry.test:5000/a"), plain_http=True):
        assert registry.log[0][1] == "http://registry.test:5000/v2/"
        assert registry.log[0][2]["Host"] == "registry.test:5000"


class _Tunnel(http.server.BaseHTTPRequestHandler):
    """CONNECT to anywhere leads to one place."""

    target: tuple[str, int]
    seen: list[tuple[str, str]]

    def do_CONNECT(self) -> None:
        """Pass bytes both ways."""
        self.seen.append((self.path, self.headers.get("Proxy-Authorization", "")))
        self.send_response(200)
        self.end_headers()
        with socket.create_connection(self.target) as other:
            back = threading.Thread(target=self._copy, args=(other, self.connection), daemon=True)
            back.start()
            self._copy(self.connection, other)
            back.join(10)

    @staticmethod
    def _copy(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def log_message(self, *_words: object) -> None:
        """Quiet."""


# --- TLS


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A self-signed certificate with its key, for registry.test and localhost."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    path = tmp_path / "certificate.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=registry.test",
         "-addext", "subjectAltName=DNS:registry.test,DNS:localhost", "-keyout", path, "-out", tmp_path / "c"],
        check=True, capture_output=True,
    )  # fmt: skip
    path.write_text(path.read_text() + (tmp_path / "c").read_text())
    return path


@pytest.fixture
def secure(registry: FakeRegistry, certificate: Path) -> FakeRegistry:
    """The registry behind TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    registry.socket = context.wrap_socket(registry.socket, server_side=True)
    return registry


def test_an_unknown_authority_is_told_and_a_named_one_trusted(
    secure: FakeRegistry, layout: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = parse_reference(f"localhost:{secure.server_address[1]}/a:1")
    with pytest.raises(Untrusted, match="certificate is not trusted") as caught:
        push(layout, reference, progress=Silent(), patience=QUICK)
    assert "SSL_CERT_FILE" in caught.value.fix
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    push(layout, reference, progress=Silent(), patience=QUICK)
    assert ("a", "1") in secure.manifests


def test_tls_through_a_proxy_that_wants_a_password(
    secure: FakeRegistry, layout: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    handler = type("Tunnel", (_Tunnel,), {"target": secure.server_address, "seen": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        monkeypatch.setenv("https_proxy", f"http://ann:p%40ss@127.0.0.1:{server.server_address[1]}")
        push(layout, parse_reference("registry.test/a:1"), progress=Silent(), patience=QUICK)
    finally:
        server.shutdown()
        server.server_close()
    assert ("a", "1") in secure.manifests
    assert set(handler.seen) == {("registry.test:443", "Basic YW5uOnBAc3M=")}


def test_a_registry_without_tls_elsewhere_is_named(registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = type("Tunnel", (_Tunnel,), {"target": registry.server_address, "seen": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{server.server_address[1]}")
    try:
        with (
            pytest.raises(Untrusted, match="does not speak TLS") as caught,
            Registry(parse_reference("registry.test/a")),
        ):
            pass
        assert "--plain-http" in caught.value.fix
    finally:
        server.shutdown()
        server.server_close()


def test_a_body_at_hand_can_be_sent_twice() -> None:
    body = data_body(b"abc")
    assert [b"".join(body.pieces()), b"".join(body.pieces())] == [b"abc", b"abc"]
    assert body.length == 3
