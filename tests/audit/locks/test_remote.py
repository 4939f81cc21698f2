"""Wheels over HTTP ranges: few requests, the same answer as from disk, and no trust in what a server says."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbit.audit.archives.zip_source import NotZip, ZipSource
from orbit.audit.locks import remote
from orbit.audit.locks.remote import TAIL_BYTES, RemoteZip, Web, file_of
from orbit.audit.locks.wheel_metadata import read_metadata
from orbit.errors import MissingError
from tests.writers.web import WebServer, serving
from tests.writers.wheels import write_wheel


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving() as running:
        yield running


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def big_wheel(folder: Path, server: WebServer, *, files: int = 40) -> Path:
    """More members and bytes than one read from the end covers."""
    path = write_wheel(folder, "big", {f"big/{number:04}.bin": noise(20_000 + number) for number in range(files)})
    server.files[f"/{path.name}"] = path.read_bytes()
    return path


def test_the_same_as_from_disk_with_a_fraction_of_the_bytes(tmp_path: Path, server: WebServer) -> None:
    path = big_wheel(tmp_path, server)
    with Web() as web, RemoteZip(web, f"{server.url}/{path.name}", path.name, path.stat().st_size) as there:
        found = read_metadata(there)
        with ZipSource(path) as here:
            assert found == read_metadata(here)
        assert web.requests == len(server.seen) <= 3
        assert web.bytes < 60_000 < path.stat().st_size / 10


def test_a_small_wheel_is_one_request(tmp_path: Path, server: WebServer) -> None:
    path = write_wheel(tmp_path, "small", {"small.py": b"x = 1\n"})
    server.files["/small.whl"] = path.read_bytes()
    with Web() as web, RemoteZip(web, f"{server.url}/small.whl", path.name) as there:
        assert set(read_metadata(there).texts) == {
            f"small-1.0.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD")
        }
    assert server.seen == [f"bytes=-{TAIL_BYTES}"]


def test_metadata_in_front_of_everything_else(tmp_path: Path, server: WebServer) -> None:
    path = write_wheel(tmp_path, "odd", {"a.pth": b"import a\n", **{f"odd/{n}.bin": noise(30_000) for n in range(9)}})
    server.files["/odd.whl"] = path.read_bytes()
    with Web() as web, RemoteZip(web, f"{server.url}/odd.whl", path.name) as there:
        assert read_metadata(there).texts["a.pth"] == b"import a\n"
        assert web.bytes < path.stat().st_size / 2


def test_redirects_are_followed_and_circles_end(tmp_path: Path, server: WebServer) -> None:
    path = big_wheel(tmp_path, server)
    server.redirects |= {"/moved": f"/{path.name}", "/a": "/b", "/b": "/a", "/bad": "http://[/x"}
    with Web() as web:
        with RemoteZip(web, f"{server.url}/moved", path.name) as there:
            assert len(there.members) == 43
        for start in ("/a", "/bad"):
            with pytest.raises(MissingError, match="redirects lead nowhere"):
                web.part(f"{server.url}{start}", 0, 1)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("whole", "whole files only"),
        ("short", "another part"),
        ("shifted", "another part"),
        ("endless", "another part"),
        ("silent", "does not say which part"),
        ("cut", "cannot be read"),
    ],
)
def test_wrong_answers(tmp_path: Path, server: WebServer, fault: str, words: str) -> None:
    path = big_wheel(tmp_path, server)
    server.fault = fault
    with Web() as web, pytest.raises(MissingError, match=words) as caught:
        RemoteZip(web, f"{server.url}/{path.name}", path.name)
    assert path.name in str(caught.value)


def test_a_file_that_changes_while_it_is_read(tmp_path: Path, server: WebServer) -> None:
    path = big_wheel(tmp_path, server)
    server.fault = "grown"
    with Web() as web, pytest.raises(NotZip, match=r"changed on the server|no end record|does not end"):
        RemoteZip(web, f"{server.url}/{path.name}", path.name)


def test_another_size_than_the_locks(tmp_path: Path, server: WebServer) -> None:
    path = big_wheel(tmp_path, server)
    with Web() as web, pytest.raises(NotZip, match="the lock says 7"):
        RemoteZip(web, f"{server.url}/{path.name}", path.name, 7)


@pytest.mark.parametrize("content", [b"", b"<html>not a wheel</html>", noise(50_000)])
def test_no_archive(server: WebServer, content: bytes) -> None:
    server.files["/x.whl"] = content
    with Web() as web, pytest.raises((NotZip, MissingError)):
        RemoteZip(web, f"{server.url}/x.whl", "x.whl")


def test_no_more_than_so_much_of_one_file(tmp_path: Path, server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    path = big_wheel(tmp_path, server)
    monkeypatch.setattr(remote, "TAIL_BYTES", 2048)
    monkeypatch.setattr(remote, "MAX_BYTES", 3000)
    with Web() as web, pytest.raises(NotZip, match="more than"):
        RemoteZip(web, f"{server.url}/{path.name}", path.name)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("file:///etc/passwd", "not a URL of a web server"),
        ("https:///x.whl", "not a URL of a web server"),
        ("http://[/x.whl", "cannot be read: not a URL|not a URL of a web server"),
        ("http://127.0.0.1:99999/x.whl", "not a URL of a web server"),
        ("http://127.0.0.1:1/x.whl", "cannot be read"),
        ("http://" + "a" * 300 + "/x.whl", "cannot be read"),
        ("http://127.0.0.1:1/a b\r\nc.whl", "cannot be read"),
    ],
)
def test_urls_that_lead_nowhere(server: WebServer, url: str, words: str) -> None:
    with Web() as web, pytest.raises(MissingError, match=words):
        web.part(url, 0, 10)
    assert server.seen == []


def test_missing_file_and_credentials_stay_unnamed(server: WebServer) -> None:
    url = server.url.replace("://", "://ann:secret@") + "/gone.whl?token=secret"
    with Web() as web, pytest.raises(MissingError, match=r"gone\.whl: the server answers 404") as caught:
        web.part(url, 0, 10)
    assert "secret" not in str(caught.value)
    assert file_of("https://ann:secret@host/") == "a URL without a file name"
    assert file_of("http://[") == "a URL that cannot be read"


def test_a_connection_that_the_server_closed_is_opened_again(tmp_path: Path, server: WebServer) -> None:
    path = big_wheel(tmp_path, server)
    url = f"{server.url}/{path.name}"
    with Web() as web:
        first = web.part(url, 0, 10)
        server.fault = "cut"
        with pytest.raises(MissingError):
            web.part(url, 0, 10)
        server.fault = ""
        assert web.part(url, 0, 10) == first


def test_a_proxy_is_asked_for_plain_http(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("no_proxy", "")
    server.files["http://files.invalid/x.whl"] = b"0123456789"
    with Web() as web:
        assert web.part("http://files.invalid/x.whl", 2, 5).data == b"234"
