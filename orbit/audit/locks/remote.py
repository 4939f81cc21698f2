"""Read a wheel's directory and metadata without the wheel: ranges over HTTP, a few kilobytes of a file of gigabytes.

Wheels are zip archives: the directory is at the end, and build backends put the dist-info folder right before it, so
two or three range requests (RFC 9110, section 14) give METADATA, WHEEL, RECORD and the list of members. The archive is
read by the same careful reader as files on disk; nothing is unpacked or written. What a server answers is not checked
against the lock's sha256, which is of the whole file: an installation does that.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import re
import socket
import ssl
import threading
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from orbit.audit.archives.zip_source import LOCAL, NAME_SLACK, Member, NotZip, ZipSource
from orbit.core.proc import ca_bundle
from orbit.errors import MissingError

TIMEOUT_S = 30.0
ATTEMPTS = 3
MAX_REDIRECTS = 5
TAIL_BYTES = 24 << 10
"""First read of every archive: the end record, and of small wheels the directory and the metadata too."""
STEP_BYTES = 8 << 10
"""Read before the directory together with it: where most wheels have their metadata."""
GAP_BYTES = 32 << 10
"""Members that lie closer together are read with one request."""
MAX_BYTES = 96 << 20
"""Read of one archive in all; the largest directory that we know has 3 MB."""
CONTENT_RANGE = re.compile(r"^bytes (\d{1,18})-(\d{1,18})/(\d{1,18})$")
NETWORK = (OSError, http.client.HTTPException, ValueError)
"""What a connection, a server or a URL of somebody else can make the standard library raise."""
FINAL = (socket.gaierror, ssl.SSLError, TimeoutError, ValueError)
"""Those that another attempt does not change, or that took long enough."""
LATE = "the servers took too long"
FOLDER = "give a folder that holds the wheels"


class NoRanges(MissingError):
    """The server cannot be asked for a part of a file, or answers with another part."""


class Part(NamedTuple):
    """Bytes of a file, and how long the whole file is."""

    data: bytes
    start: int
    total: int


class Web:
    """Range requests over connections that stay open, one for each thread and server. Use from any number of threads.

    Proxies and certificates are those of the host, as for every fetch of Orbit.
    """

    def __init__(self) -> None:
        bundle = ca_bundle()
        self._context = ssl.create_default_context(cafile=str(bundle) if bundle else None)
        self._proxies = urllib.request.getproxies()
        self._local = threading.local()
        self._lock = threading.Lock()
        self._open: list[http.client.HTTPConnection] = []
        self._ended = threading.Event()
        self.requests = 0
        self.bytes = 0
        """Received in answers, without headers."""

    def __enter__(self) -> Web:
        return self

    def __exit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        for connection in self._open:
            connection.close()

    def abort(self) -> None:
        """End what is under way and refuse what comes; callable from any thread."""
        with self._lock:
            self._ended.set()
            for connection in self._open:
                if connection.sock is not None:
                    with contextlib.suppress(OSError):
                        connection.sock.shutdown(socket.SHUT_RDWR)

    def part(self, url: str, start: int, stop: int) -> Part:
        """Bytes ``start`` to ``stop`` of the file behind ``url``; a negative ``start`` counts from its end (``stop`` is
        not used then). Shorter at the end of the file.

        Raises :class:`MissingError` when it cannot be had.
        """
        for _ in range(MAX_REDIRECTS):
            wanted = f"bytes={start}" if start < 0 else f"bytes={start}-{stop - 1}"
            status, headers, body = self._get(url, wanted, -start if start < 0 else stop - start)
            if status not in (301, 302, 303, 307, 308) or not headers.get("Location"):
                return _checked(file_of(url), status, headers, body, start)
            try:
                url = urljoin(url, headers["Location"])
            except ValueError:
                break
        raise MissingError(f"{file_of(url)}: the server's redirects lead nowhere", fix="check the URL in the lock")

    def _get(self, url: str, wanted: str, size: int) -> tuple[int, http.client.HTTPMessage, bytes]:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            usable = False
        if not usable:
            raise MissingError(f"{file_of(url)}: not a URL of a web server", fix=FOLDER)
        for attempt in range(ATTEMPTS):
            if self._ended.is_set():
                raise MissingError(f"{file_of(url)}: {LATE}", fix=FOLDER)
            connection, direct = self._connection(parts)
            target = parts._replace(scheme="", netloc="", fragment="").geturl() if direct else url
            try:
                connection.request("GET", target or "/", headers=_headers(parts, wanted))
                if self._ended.is_set():  # while it was being opened: nobody else ends this one
                    connection.close()
                    continue
                answer = connection.getresponse()
                promised = answer.length
                body = answer.read(size + 1)
                if promised is not None and len(body) < min(promised, size + 1):
                    raise http.client.IncompleteRead(body)
                if not answer.isclosed():
                    connection.close()  # more than was asked for: not worth reading
            except NETWORK as error:
                connection.close()
                if self._ended.is_set() or (attempt + 1 < ATTEMPTS and not isinstance(error, FINAL)):
                    continue
                raise MissingError(
                    f"{file_of(url)}: cannot be read ({_why(error)})",
                    fix="check the network, the proxy variables and SSL_CERT_FILE",
                ) from None
            with self._lock:
                self.requests += 1
                self.bytes += len(body)
            return answer.status, answer.headers, body
        raise AssertionError

    def _connection(self, parts: SplitResult) -> tuple[http.client.HTTPConnection, bool]:
        """(this thread's connection to a server, whether it leads there without a proxy that wants whole URLs)."""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        host = str(parts.hostname)
        proxy = self._proxies.get(parts.scheme, "")
        used = bool(proxy) and not urllib.request.proxy_bypass(host)
        known = vars(self._local).setdefault("known", {})
        key = (parts.scheme, host, port)
        if key not in known:
            known[key] = self._connect(parts.scheme, host, port, proxy if used else "")
            with self._lock:
                self._open.append(known[key])
        return known[key], not used or parts.scheme == "https"

    def _connect(self, scheme: str, host: str, port: int, proxy: str) -> http.client.HTTPConnection:
        via = urlsplit(proxy if "://" in proxy else f"http://{proxy}") if proxy else None
        first = (via.hostname or "", via.port or 80) if via else (host, port)
        if scheme == "http":
            return http.client.HTTPConnection(*first, timeout=TIMEOUT_S)
        connection = http.client.HTTPSConnection(*first, timeout=TIMEOUT_S, context=self._context)
        if via:
            given = f"{unquote(via.username or '')}:{unquote(via.password or '')}".encode()
            proof = {"Proxy-Authorization": f"Basic {base64.b64encode(given).decode()}"} if via.username else {}
            connection.set_tunnel(host, port, headers=proof)
        return connection


class RemoteZip(ZipSource):
    """A wheel behind a URL. Raises :class:`NotZip` when it is no archive, :class:`MissingError` without an answer."""

    tail_bytes = 4 << 10

    def __init__(self, web: Web, url: str, name: str, size: int = 0) -> None:
        self.path = Path(name)
        self._web = web
        self._url = url
        self._fetched = 0
        self._pieces: dict[int, bytes] = {}
        last = web.part(url, -TAIL_BYTES, 0)
        if size and last.total != size:
            raise NotZip(self.path, f"the server has {last.total} bytes, the lock says {size}")
        self.size = last.total
        self._keep(last)
        self._start, table, count = self._directory()
        self._fetch(max(0, self._start - STEP_BYTES), self._start + table)
        self.members = tuple(self._judged(list(self._entries(self._read(table, self._start), count))))

    def __exit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._pieces.clear()

    def prepare(self, members: Iterable[Member]) -> None:
        """Fetch what reading these members needs, with few requests."""
        spans = sorted(
            (item.offset, min(self._start, item.offset + LOCAL.size + 4 * len(item.name) + NAME_SLACK + item.packed))
            for item in members
            if not item.problem
        )
        joined: list[tuple[int, int]] = []
        for start, stop in spans:
            if joined and start - joined[-1][1] <= GAP_BYTES:
                joined[-1] = joined[-1][0], max(stop, joined[-1][1])
            else:
                joined.append((start, stop))
        for start, stop in joined:
            self._fetch(start, stop)

    def _read(self, size: int, offset: int) -> bytes:
        stop = min(offset + size, self.size)
        if offset >= stop:
            return b""
        self._fetch(offset, stop)
        return b"".join(
            data[max(0, offset - start) : stop - start]
            for start, data in sorted(self._pieces.items())
            if start < stop and offset < start + len(data)
        )

    def _fetch(self, start: int, stop: int) -> None:
        """Have bytes ``start`` to ``stop``: ask for what is not there yet. Pieces never overlap."""
        missing = []
        at = start
        for begin, data in sorted(self._pieces.items()):
            if at < begin:
                missing.append((at, min(begin, stop)))
            at = max(at, begin + len(data))
            if at >= stop:
                break
        for low, high in [*missing, (at, stop)]:
            if low >= high:
                continue
            if self._fetched + high - low > MAX_BYTES:
                raise NotZip(self.path, f"more than {MAX_BYTES >> 20} MB of directory and metadata")
            part = self._web.part(self._url, low, high)
            if part.total != self.size or part.start != low or len(part.data) != high - low:
                raise NotZip(self.path, "the file changed on the server while it was read")
            self._keep(part)

    def _keep(self, part: Part) -> None:
        self._fetched += len(part.data)
        self._pieces[part.start] = part.data


def file_of(url: str) -> str:
    """The file name in a URL: what messages show, because the rest may hold credentials."""
    try:
        return unquote(urlsplit(url).path.rpartition("/")[2]) or "a URL without a file name"
    except ValueError:
        return "a URL that cannot be read"


def _why(error: Exception) -> str:
    if isinstance(error, http.client.IncompleteRead):
        return "the connection ends in the middle"
    return str(error) or type(error).__name__


def _headers(parts: SplitResult, wanted: str) -> dict[str, str]:
    headers = {"Range": wanted, "User-Agent": "orbit", "Accept-Encoding": "identity"}
    if parts.username:
        given = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(given).decode()}"
    return headers


def _checked(name: str, status: int, headers: http.client.HTTPMessage, body: bytes, start: int) -> Part:
    """The part that was asked for; a server may answer with the whole file when that is short."""
    if status == 206:
        match = CONTENT_RANGE.match(headers.get("Content-Range", ""))
        if match is None:
            raise NoRanges(f"{name}: the server does not say which part it sends", fix=FOLDER)
        first, last, total = (int(group) for group in match.groups())
        if (start >= 0 and first != start) or len(body) != last - first + 1 or last >= total:
            raise NoRanges(f"{name}: the server sends another part than was asked for", fix=FOLDER)
        return Part(body, first, total)
    if status == 200:
        length = headers.get("Content-Length", "")
        if length.isdecimal() and int(length) == len(body):
            return Part(body, 0, len(body))
        raise NoRanges(f"{name}: the server sends whole files only", fix=FOLDER)
    raise MissingError(
        f"{name}: the server answers {status}",
        fix="check that the lock is current and that the index still has the file",
    )
