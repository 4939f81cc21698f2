"""The Authorization header of each request, by what the registry challenged us for.

RFC 7617 (Basic), RFC 6750 (Bearer) and docker's token authentication (realm, service, scope; OAuth2 refresh with an
identity token). Tokens are kept per scope and fetched anew before they end.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from urllib.parse import urlencode, urlsplit

import msgspec

from orbit.errors import CheckFailed, RefusedError
from orbit.image.registry.credentials import Credentials
from orbit.image.registry.transport import SET_UP, Request, Response, data_body, shown

TOKEN_BYTES = 1 << 20
TOKEN_LIFE_S = 60.0
"""Of a token that does not say (token specification: "at least 60 seconds")."""
TOKEN_MARGIN_S = 10.0
FORM = {"Content-Type": "application/x-www-form-urlencoded"}

Ask = Callable[[Request], Response]
"""Sends a request until its status is 200."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """One scheme of a ``WWW-Authenticate`` header."""

    scheme: str
    parameters: Mapping[str, str]


class _Token(msgspec.Struct, frozen=True):
    token: str = ""
    access_token: str = ""
    expires_in: float = TOKEN_LIFE_S


class Authorizer:
    """Who we are for one registry. Threads may share it."""

    def __init__(self, credentials: Credentials | None, ask: Ask) -> None:
        self.credentials = credentials
        self._ask = ask
        self._lock = threading.RLock()
        self._challenge: Challenge | None = None
        self._tokens: dict[tuple[str, ...], tuple[str, float]] = {}

    def challenged(self, headers: Message) -> None:
        """The first answer was 401: what it asks for."""
        self._challenge = choose(headers.get_all("WWW-Authenticate") or [])

    def header(self, scopes: Sequence[str], *, encrypted: bool) -> str:
        """The value for a request that needs ``scopes``; empty for none. ``encrypted``: the registry speaks TLS."""
        with self._lock:
            challenge, known = self._challenge, self.credentials
            if challenge is None:
                return ""
            if challenge.scheme == "basic":
                return known.basic if known and known.username else ""
            key = tuple(scopes)
            value, until = self._tokens.get(key, ("", 0.0))
            if time.monotonic() >= until:
                value, until = self._fetch(challenge, key, encrypted=encrypted)
                self._tokens[key] = (value, until)
            return value

    def renew(self, headers: Message, scopes: Sequence[str], sent: str) -> bool:
        """After a 401 for the value ``sent``: whether asking again makes sense, with what :meth:`header` then gives."""
        with self._lock:
            challenge = choose(headers.get_all("WWW-Authenticate") or [])
            if challenge is None:
                return False
            old, self._challenge = self._challenge, challenge
            if challenge.scheme == "basic":
                return self.credentials is not None and (old is None or old.scheme != "basic")
            if self._tokens.get(tuple(scopes), ("", 0.0))[0] == sent:
                del self._tokens[tuple(scopes)]  # else another thread has a new one already
            return True

    def _fetch(self, challenge: Challenge, scopes: tuple[str, ...], *, encrypted: bool) -> tuple[str, float]:
        """(value of the header, monotonic time until which it is good)."""
        realm, known = challenge.parameters["realm"], self.credentials
        if known and encrypted and urlsplit(realm).scheme != "https":
            raise RefusedError(f"a password is to be sent to {shown(realm)} without TLS", fix=SET_UP)
        service = challenge.parameters.get("service")
        fields = [("service", service)] if service else []
        began = time.monotonic()
        if known and known.identity_token:
            form = [("grant_type", "refresh_token"), ("refresh_token", known.identity_token), ("client_id", "orbit")]
            body = urlencode([*form, *fields, ("scope", " ".join(scopes))]).encode()
            request = Request("POST", realm, FORM, data_body(body))
        else:
            query = urlencode([*fields, *(("scope", scope) for scope in scopes)])
            url = f"{realm}{'&' if urlsplit(realm).query else '?'}{query}"
            request = Request("GET", url, {"Authorization": known.basic} if known else {})
        with self._ask(request) as response:
            try:
                answer = msgspec.json.decode(response.read(TOKEN_BYTES), type=_Token)
            except (msgspec.DecodeError, RecursionError):
                raise CheckFailed(f"{shown(realm)}: its answer is no token", fix=SET_UP) from None
        value = answer.token or answer.access_token
        if not re.fullmatch(r"[\x21-\x7e]+", value):
            raise CheckFailed(f"{shown(realm)}: gave no token", fix=SET_UP)
        return f"Bearer {value}", began + max(1.0, answer.expires_in - TOKEN_MARGIN_S)


PARAMETER = re.compile(r'\s*([A-Za-z0-9_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))\s*(?:,|$)')
SCHEME = re.compile(r"\s*,?\s*([A-Za-z][A-Za-z0-9-]*)(?:\s+|$)")


def parse_challenges(value: str) -> list[Challenge]:
    """The challenges of one ``WWW-Authenticate`` header (RFC 9110, 11.6.1); what is malformed ends the list."""
    found: list[Challenge] = []
    while start := SCHEME.match(value):
        value = value[start.end() :]
        parameters: dict[str, str] = {}
        while item := PARAMETER.match(value):
            name, quoted, bare = item.groups()
            parameters[name.lower()] = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else bare
            value = value[item.end() :]
        found.append(Challenge(start[1].lower(), parameters))
    return found


def choose(values: Sequence[str]) -> Challenge | None:
    """The challenge to answer: Bearer with a realm before Basic; None when there is neither."""
    found = [challenge for value in values for challenge in parse_challenges(value)]
    bearer = [item for item in found if item.scheme == "bearer" and item.parameters.get("realm")]
    basic = [item for item in found if item.scheme == "basic"]
    return next(iter(bearer + basic), None)
