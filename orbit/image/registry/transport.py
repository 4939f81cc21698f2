"""HTTP/1.1 with what a registry's client needs: streamed bodies both ways, kept connections, proxies, redirects.

The standard library's :mod:`http.client`. Certificates are those of ``$SSL_CERT_FILE``; proxies are those of the usual
variables, never for this machine itself. A redirect to another host gets no Authorization header.
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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from email.message import Message
from types import TracebackType
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from orbit.core.proc import ca_bundle
from orbit.errors import MissingError, RefusedError
from orbit.image.registry.reference import is_loopback

TIMEOUT_S = 60.0
REDIRECTS = 5
DRAIN_BYTES = 64 << 10
"""An unread rest of an answer up to this is read, so that the connection can serve again."""
NETWORK_FIX = "check the host's name, the network, the proxy variables and SSL_CERT_FILE; then run the command again"
SET_UP = "the registry is set up wrongly: tell its keepers"
REDIRECTED = (301, 302, 303, 307, 308)
PORTS = {"http": 80, "https": 443}


class Broken(MissingError):
    """A connection that could not be made, broke, or had a server that is busy: the same may work a little later."""

    wait_s: float | None = None
    """What the server asked to wait (Retry-After)."""
    reached = True
    """False when no connection came about."""


class Untrusted(MissingError):
    """TLS failed: waiting does not help."""

    not_tls = False
    """Whether the other side seems to speak plain HTTP."""


@dataclass(frozen=True, slots=True)
class Body:
    """What is sent: ``length`` bytes in pieces, which can be had more than once."""

    length: int
    pieces: Callable[[], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class Request:
    """One request to one address."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: Body | None = None
    timeout_s: float = TIMEOUT_S

    @property
    def parts(self) -> SplitResult:
        """The address, taken apart."""
        return urlsplit(self.url)

    @property
    def key(self) -> tuple[str, str]:
        """Requests with one key can share a connection."""
        return self.parts.scheme, self.parts.netloc

    @property
    def line(self) -> str:
        """What the request line says: a plain-HTTP proxy gets the whole address (RFC 9112, 3.2)."""
        parts = self.parts
        direct = parts.scheme == "https" or proxy_of(parts) is None
        return (parts._replace(scheme="", netloc="") if direct else parts)._replace(fragment="").geturl() or "/"

    @property
    def sent(self) -> dict[str, str]:
        """All headers."""
        headers = {"User-Agent": "orbit", "Host": self.parts.netloc.rpartition("@")[2], **self.headers}
        if self.body is not None or self.method in ("POST", "PUT", "PATCH"):
            headers["Content-Length"] = str(self.body.length if self.body else 0)
        return headers


def data_body(data: bytes) -> Body:
    """A body that is at hand."""
    return Body(len(data), lambda: (data,))


class Response:
    """An answer whose body is read as it comes; use it in a ``with`` block."""

    def __init__(self, transport: Transport, link: http.client.HTTPConnection, request: Request) -> None:
        self._transport, self._link, self._key = transport, link, request.key
        self._raw = link.getresponse()
        self.url = request.url
        self.status: int = self._raw.status
        self.headers: Message = self._raw.headers

    def readinto(self, buffer: memoryview) -> int:
        """Fill ``buffer`` as far as data comes; 0 at the end. Raises :class:`Broken`."""
        try:
            return self._raw.readinto(buffer)
        except (OSError, http.client.HTTPException) as error:
            raise broken(self.url, error) from None

    def read(self, limit: int) -> bytes:
        """The body, at most ``limit`` bytes of it. Raises :class:`Broken`, also for an end before its length."""
        pieces, left = [], limit
        try:
            while left and (piece := self._raw.read(left)):
                pieces.append(piece)
                left -= len(piece)
        except (OSError, http.client.HTTPException) as error:
            raise broken(self.url, error) from None
        return b"".join(pieces)

    @property
    def length(self) -> int | None:
        """Content-Length; None when there is none."""
        text = self.headers.get("Content-Length", "")
        return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None

    def __enter__(self) -> Response:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and (self._raw.isclosed() or (self.length or 0) <= DRAIN_BYTES):
                self._raw.read(DRAIN_BYTES)
        except (OSError, http.client.HTTPException):
            pass
        if kind is None and self._raw.isclosed() and not self._raw.will_close:
            self._transport.keep(self._key, self._link)
        else:
            self._transport.drop(self._link)


class Transport:
    """Connections, shared by threads. ``plain_http`` allows HTTP to hosts other than this machine."""

    def __init__(self, *, plain_http: bool = False) -> None:
        self.plain_http = plain_http
        self._idle: dict[tuple[str, str], list[http.client.HTTPConnection]] = {}
        self._busy: set[http.client.HTTPConnection] = set()
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None

    def open(self, request: Request) -> Response:
        """Send a request and give the answer's head; redirects of GET and HEAD are followed.

        Raises :class:`Broken` when the connection cannot be made or breaks, :class:`Untrusted` for certificates, and
        :class:`RefusedError` for plain HTTP to another machine that nobody allowed.
        """
        for _ in range(REDIRECTS + 1):
            response = self._once(request)
            place = response.headers.get("Location")
            if request.method not in ("GET", "HEAD") or response.status not in REDIRECTED or not place:
                return response
            with response:
                pass
            request = _redirected(request, urljoin(request.url, place))
        raise MissingError(f"{shown(request.url)}: more than {REDIRECTS} redirects", fix=SET_UP)

    def keep(self, key: tuple[str, str], link: http.client.HTTPConnection) -> None:
        """Take back a connection that is ready for the next request."""
        with self._lock:
            self._busy.discard(link)
            self._idle.setdefault(key, []).append(link)

    def drop(self, link: http.client.HTTPConnection) -> None:
        """Close a connection."""
        with self._lock:
            self._busy.discard(link)
        link.close()

    def abort(self) -> None:
        """Break every connection at work: whoever waits for one gets :class:`Broken`."""
        with self._lock:
            links = list(self._busy)
        for link in links:
            with contextlib.suppress(OSError, AttributeError):
                link.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close what is kept."""
        with self._lock:
            links = [link for group in self._idle.values() for link in group]
            self._idle.clear()
        for link in links:
            link.close()

    def _once(self, request: Request) -> Response:
        parts = request.parts
        if parts.scheme not in PORTS or not parts.hostname:
            raise MissingError(f"{shown(request.url)}: not an http address", fix=SET_UP)
        if parts.scheme == "http" and not self.plain_http and not is_loopback(parts.hostname):
            raise RefusedError(
                f"{shown(request.url)}: plain HTTP to another machine", fix="use TLS, or allow it with --plain-http"
            )
        # a kept connection may have been closed by the server: it serves only what can be asked twice
        link = self._kept(request.key) if request.method in ("GET", "HEAD") else None
        if link is not None:
            try:
                return self._exchange(link, request)
            except Broken:
                pass  # the server had closed it; that says nothing about a new one
        return self._exchange(self._connect(parts, request.timeout_s), request)

    def _kept(self, key: tuple[str, str]) -> http.client.HTTPConnection | None:
        with self._lock:
            links = self._idle.get(key)
            if not links:
                return None
            self._busy.add(links[-1])
            return links.pop()

    def _exchange(self, link: http.client.HTTPConnection, request: Request) -> Response:
        body = request.body
        try:
            if link.sock is not None:
                link.sock.settimeout(request.timeout_s)
            try:
                link.request(request.method, request.line, body.pieces() if body else None, request.sent)
            except (BrokenPipeError, ConnectionResetError):
                if body is None:
                    raise
                # the server may have answered before it had read everything
            return Response(self, link, request)
        except (OSError, http.client.HTTPException) as error:
            self.drop(link)
            raise broken(request.url, error) from None
        except BaseException:
            self.drop(link)
            raise

    def _connect(self, parts: SplitResult, timeout_s: float) -> http.client.HTTPConnection:
        host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
        proxy = proxy_of(parts)
        at_host, at_port = (proxy.hostname or "", proxy.port or 80) if proxy else (host, port)
        if parts.scheme == "http":
            link = http.client.HTTPConnection(at_host, at_port, timeout=timeout_s)
        else:
            link = http.client.HTTPSConnection(at_host, at_port, timeout=timeout_s, context=self._tls())
            if proxy:
                link.set_tunnel(host, port, proxy_headers(proxy))
        with self._lock:
            self._busy.add(link)
        try:
            link.connect()
            link.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except (OSError, http.client.HTTPException) as error:
            self.drop(link)
            failure = broken(parts.geturl(), error)
            if isinstance(failure, Broken):
                failure.reached = False
            raise failure from None
        return link

    def _tls(self) -> ssl.SSLContext:
        with self._lock:
            if self._context is None:
                bundle = ca_bundle()
                self._context = ssl.create_default_context(cafile=str(bundle) if bundle else None)
            return self._context


def _redirected(request: Request, target: str) -> Request:
    headers = request.headers
    if origin(target) != origin(request.url):
        headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
        if request.parts.scheme == "https" and urlsplit(target).scheme != "https":
            raise RefusedError(f"{shown(request.url)}: redirects from https to {shown(target)}", fix=SET_UP)
    return replace(request, url=target, headers=headers)


def proxy_of(parts: SplitResult) -> SplitResult | None:
    """The proxy for an address by ``http_proxy``, ``https_proxy``, ``all_proxy`` and ``no_proxy``; None: directly."""
    host = parts.hostname or ""
    if is_loopback(host) or urllib.request.proxy_bypass_environment(parts.netloc.rpartition("@")[2]):  # type: ignore[attr-defined]
        return None
    named = urllib.request.getproxies_environment()
    value = named.get(parts.scheme) or named.get("all")
    if not value:
        return None
    return urlsplit(value if "://" in value else f"http://{value}")


def proxy_headers(proxy: SplitResult) -> dict[str, str]:
    """What a proxy with a user name in its address wants to see."""
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


def origin(url: str) -> tuple[str, str, int]:
    """(scheme, host, port) of an address."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0)


def shown(url: str) -> str:
    """An address for messages: without user and query, which may be secrets."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def broken(url: str, error: Exception) -> MissingError:
    """What went wrong on a connection, as an error of ours."""
    host = urlsplit(url).netloc.rpartition("@")[2]
    if isinstance(error, ssl.SSLCertVerificationError):
        return Untrusted(
            f"{host}: its certificate is not trusted ({error.verify_message})",
            fix="name the bundle that has its authority: SSL_CERT_FILE=FILE",
        )
    if isinstance(error, ssl.SSLError) and error.reason in (
        "WRONG_VERSION_NUMBER",
        "HTTP_REQUEST",
        "RECORD_LAYER_FAILURE",
    ):
        failure = Untrusted(f"{host}: does not speak TLS", fix="for a registry without TLS: --plain-http")
        failure.not_tls = True
        return failure
    if isinstance(error, socket.gaierror):
        return Untrusted(f"{host}: no such host ({error.strerror})", fix=NETWORK_FIX)
    if isinstance(error, http.client.IncompleteRead):
        return Broken(f"{host}: the connection ended in the middle of an answer", fix=NETWORK_FIX)
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return Broken(f"{host}: {said}", fix=NETWORK_FIX)
