"""What a registry's refusals mean: its status and words as one of our errors."""

from __future__ import annotations

import re
import time
from email.utils import parsedate_to_datetime

import msgspec

from orbit.errors import CheckFailed, MissingError, OrbitError, RefusedError
from orbit.image.registry.transport import Broken, Response, shown

BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
ERROR_BYTES = 64 << 10
BUSY_FIX = "the registry is busy or broken: run the same command again later"
NAME_FIX = "check the name; a repository one may not read looks as if it were not there"


class _Problem(msgspec.Struct, frozen=True):
    code: str = ""
    message: str = ""


class _Problems(msgspec.Struct, frozen=True):
    errors: tuple[_Problem, ...] = ()


def problem(response: Response, method: str, *, host: str, known: bool) -> OrbitError:
    """The error of an unexpected status. ``known``: whether we had credentials for ``host``.

    :class:`Broken` where trying again may help, :class:`RefusedError` for 401 and 403, :class:`MissingError` for 404,
    else :class:`CheckFailed`.
    """
    said = "" if method == "HEAD" else _words(response)
    text = f"{shown(response.url)}: {response.status}{f' {said}' if said else ''}"
    if response.status in BUSY:
        failure = Broken(text, fix=BUSY_FIX)
        failure.wait_s = retry_after(response.headers.get("Retry-After", ""))
        return failure
    if response.status in (401, 403):
        return denied(text, host=host, known=known)
    if response.status == 404:
        return MissingError(text, fix=NAME_FIX)
    return CheckFailed(text, fix="the registry does not take this; its log says more")


def denied(text: str, *, host: str, known: bool) -> RefusedError:
    """We may not do that."""
    who = "with the credentials at hand" if known else "and nobody is logged in"
    return RefusedError(
        f"{text}: not allowed, {who}", fix=f"`docker login {host}` or `podman login {host}` with an account that may"
    )


def _words(response: Response) -> str:
    """The registry's own words (distribution specification, "Error Codes"), on one line."""
    try:
        found = msgspec.json.decode(response.read(ERROR_BYTES), type=_Problems).errors
    except (msgspec.DecodeError, Broken, RecursionError):
        return ""
    text = "; ".join(f"{item.code}: {item.message}".strip(": ") for item in found[:3])
    return re.sub(r"[^\x20-\x7e]+", " ", text)[:500]


def retry_after(value: str) -> float | None:
    """Seconds of a Retry-After header, a number or a date (RFC 9110, 10.2.3); None when it says nothing."""
    if re.fullmatch(r"[0-9]{1,9}", value.strip()):
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
