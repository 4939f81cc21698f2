"""A Debian archive in miniature, written by code: packages, indexes, signatures, and a server with faults."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

from orbit.image.base.definition import BaseDefinition
from orbit.image.base.lock import BaseLock, LockedPackage, Release

SUITE, UPDATES, SECURITY = "toy", "toy-updates", "toy-security"
DATE = "Sun, 29 Nov 2026 00:53:13 UTC"

DEFINITION = BaseDefinition(
    schema=2,
    distribution="debian",
    suites=(SUITE, UPDATES, SECURITY),
    variant="essential",
    packages=("hello",),
    drop=("var/log/*",),
)


@dataclass(frozen=True)
class Toy:
    """One package to be."""

    name: str
    version: str = "1.0-1"
    architecture: str = "all"
    depends: str = ""
    source: str = ""
    essential: bool = False
    priority: str = "optional"
    suites: tuple[str, ...] = (SUITE,)
    """Where it is listed; the file lies in the archive of the first."""
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def deb(self) -> str:
        return f"{self.name}_{self.version.partition(':')[2] or self.version}_{self.architecture}.deb"

    @property
    def path(self) -> str:
        return f"pool/{'updates/' if self.suites[0] == SECURITY else ''}main/{self.name[0]}/{self.name}/{self.deb}"

    def control(self) -> str:
        fields = {
            "Package": self.name,
            "Version": self.version,
            "Architecture": self.architecture,
            "Maintainer": "A Person <person@example.invalid>",
            "Priority": self.priority,
            "Depends": self.depends,
            "Source": self.source,
            "Essential": "yes" if self.essential else "",
            "Description": "a package for tests\n that says nothing",
        }
        return "".join(f"{key}: {value}\n" for key, value in fields.items() if value)

    def data(self) -> bytes:
        control = _tar({"control": self.control().encode()})
        content = _tar(self.files or {f"usr/share/{self.name}": self.name.encode() * 500})
        return b"!<arch>\n" + b"".join(
            _ar_member(name, data)
            for name, data in (("debian-binary", b"2.0\n"), ("control.tar", control), ("data.tar", content))
        )


def _tar(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def _ar_member(name: str, data: bytes) -> bytes:
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
    return head + data + b"\n" * (len(data) % 2)


TOYS = (
    Toy("base-thing", essential=True),
    Toy("hello", "1:2.10-3", depends="libhello1 (>= 1.0)", suites=(SUITE,)),
    Toy("libhello1", "1.0-1+toy1", "amd64", source="hello-source (1.0-1)", suites=(SECURITY,)),
    Toy("libhello1", "1.0-1", "amd64"),
)
"""What the definition asks for comes out as base-thing, hello and the newer libhello1."""
CHOSEN = TOYS[:3]


def locked(toy: Toy) -> LockedPackage:
    data = toy.data()
    return LockedPackage(
        name=toy.name,
        version=toy.version,
        architecture=toy.architecture,
        source=toy.source.partition(" ")[0] or toy.name,
        source_version=toy.version,
        archive=toy.suites[0],
        security=SECURITY in toy.suites,
        file=toy.path,
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )


def lock_of(*toys: Toy, definition: BaseDefinition = DEFINITION) -> BaseLock:
    return BaseLock(
        schema=1,
        definition=definition.resolved_from,
        architecture="amd64",
        archives=tuple(
            Release(suite=suite, codename=suite, label="Toy", date="2026-11-29T00:53:13Z", security=suite == SECURITY)
            for suite in definition.suites
        ),
        packages=tuple(sorted((locked(toy) for toy in toys), key=lambda package: package.name)),
    )


def write_pool(root: Path, *toys: Toy) -> None:
    """The packages below ``root``, which is one archive."""
    for toy in toys:
        target = root / toy.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(toy.data())


def write_dists(root: Path, suite: str, *toys: Toy, date: str = DATE, valid_until: str = "") -> str:
    """The indexes of one suite; returns the text of its Release file."""
    stanzas = []
    for toy in toys:
        data = toy.data()
        sha256 = hashlib.sha256(data).hexdigest()
        stanzas.append(f"{toy.control()}Filename: {toy.path}\nSize: {len(data)}\nSHA256: {sha256}\n")
    index = "\n".join(stanzas).encode()
    place = root / "dists" / suite
    relative = "main/binary-amd64/Packages"
    (place / relative).parent.mkdir(parents=True, exist_ok=True)
    (place / relative).write_bytes(index)
    until = f"Valid-Until: {valid_until}\n" if valid_until else ""
    listed = f" {hashlib.sha256(index).hexdigest()} {len(index)} {relative}\n"
    release = (
        f"Origin: Toy\nLabel: Toy\nSuite: {suite}\nCodename: {suite}\nVersion: 1.2\nDate: {date}\n{until}"
        f"Architectures: amd64\nComponents: main\nSHA256:\n{listed}"
    )
    (place / "Release").write_text(release)
    return release


class Signer:
    """An OpenPGP key of the test's own. Needs gpg."""

    def __init__(self, home: Path) -> None:
        self.home = home
        home.mkdir(mode=0o700)
        self.keyring = home / "keyring.gpg"
        self._gpg("--quick-generate-key", "--passphrase", "", "Toy <toy@example.invalid>", "rsa2048", "sign", "never")
        self.keyring.write_bytes(self._gpg("--export"))

    def _gpg(self, *args: str) -> bytes:
        argv = ["gpg", "--homedir", str(self.home), "--batch", "--quiet", "--yes", *args]
        return subprocess.run(argv, check=True, capture_output=True).stdout

    def sign(self, root: Path, suite: str) -> None:
        """Make InRelease from Release."""
        place = root / "dists" / suite
        self._gpg("--clear-sign", "--output", str(place / "InRelease"), str(place / "Release"))

    def close(self) -> None:
        subprocess.run(["gpgconf", "--homedir", str(self.home), "--kill", "all"], check=False, capture_output=True)


@contextmanager
def signer(home: Path) -> Iterator[Signer]:
    """A signer, or a skip with the reason. The path must be short: gpg's agent listens on a socket in it."""
    for program in ("gpg", "apt-get"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    made = Signer(home)
    try:
        yield made
    finally:
        made.close()


class Server(ThreadingHTTPServer):
    """Serves a folder. ``faults`` maps the end of a path to what goes wrong there."""

    root: Path
    faults: dict[str, str]
    """``missing``, ``error`` (500), ``cut`` (half of the body), ``cut-once``, ``wrong`` (other bytes), ``hang``."""
    seen: list[str]
    ranges: list[str]
    release: threading.Event
    """Ends what hangs in the middle of a body."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.path = unquote(self.path)
        self.server.seen.append(self.path)
        if "Range" in self.headers:
            self.server.ranges.append(self.headers["Range"])
        path = self.server.root / self.path.lstrip("/")
        name, fault = next(
            ((end, fault) for end, fault in self.server.faults.items() if self.path.endswith(end)), ("", "")
        )
        if fault == "missing" or not path.is_file():
            self.send_error(404)
            return
        if fault == "error":
            self.send_error(500)
            return
        body = path.read_bytes()
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        if fault == "wrong":
            body = bytes(byte ^ 1 for byte in body)
        body = body[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if fault in ("cut", "cut-once"):
            body = body[: len(body) // 2]
        if fault == "hang":
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.server.release.wait(60)
            return
        if fault == "cut-once":
            del self.server.faults[name]
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Quiet."""


@contextmanager
def serving(root: Path, **faults: str) -> Iterator[Server]:
    """A server of ``root``."""
    server = Server(("127.0.0.1", 0), Handler)
    server.root, server.faults, server.seen = root, dict(faults), []
    server.ranges, server.release = [], threading.Event()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.release.set()
        server.shutdown()
        server.server_close()
        thread.join()


def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy, no mirrors and no folders of the machine."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name in ("ORBIT_DEBIAN", "ORBIT_SOURCES"):
        monkeypatch.delenv(name, raising=False)
    assert not {"ORBIT_DEBIAN", "ORBIT_SOURCES"} & set(os.environ)
