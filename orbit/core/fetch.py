"""Fetch one file by URL and sha256: through the host's proxy and certificates, resumable, whole or not at all."""

from __future__ import annotations

import os
import ssl
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from urllib.parse import unquote, urlsplit

from orbit.core.console import BYTES, Progress
from orbit.core.files import CHUNK_BYTES, sha256_file, sync_folder
from orbit.core.proc import ca_bundle
from orbit.errors import CheckFailed, MissingError

TIMEOUT_S = 60.0
ATTEMPTS = 3


def fetch(url: str, sha256: str, dest: Path, progress: Progress) -> Path:
    """Put the file behind ``url`` at ``dest`` and return ``dest``; nothing is done when it is there already.

    Data goes to ``.<name>.partial`` beside ``dest``, is checked against ``sha256`` and then renamed. A partial file of
    an earlier try is continued when the server can (HTTP range), else begun anew.

    Raises :class:`MissingError` when the server cannot be reached or has no such file, and :class:`CheckFailed` when
    what arrived is not what ``sha256`` says (nothing is kept then).
    """
    name = file_name(url)
    if dest.is_file() and sha256_file(dest) == sha256:
        return dest
    dest.parent.mkdir(parents=True, exist_ok=True)
    partial = dest.with_name(f".{dest.name}.partial")
    for attempt in range(ATTEMPTS):
        try:
            _download(url, partial, progress)
            break
        except urllib.error.HTTPError as error:
            if error.code == 416:
                # the partial file is longer than the source: not ours to continue
                partial.unlink(missing_ok=True)
                continue
            raise MissingError(
                f"{name}: the server answers {error.code} {error.reason}",
                fix="check that uv.lock is current (`orbit lock check`) and that the package index still has the file",
            ) from None
        except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
            if attempt + 1 < ATTEMPTS and not isinstance(error, urllib.error.URLError):
                continue
            reason = getattr(error, "reason", None) or error
            raise MissingError(
                f"{name}: cannot be fetched ({reason})",
                fix="check the network, the proxy variables and SSL_CERT_FILE; what arrived so far is kept",
            ) from None
    found = sha256_file(partial) if partial.exists() else "nothing"
    if found != sha256:
        partial.unlink(missing_ok=True)
        raise CheckFailed(
            f"{name}: sha256 is {found}, the lock says {sha256}",
            fix="run again; if it stays, something between here and the package index changes files: do not trust it",
        )
    os.replace(partial, dest)
    sync_folder(dest.parent)
    return dest


def file_name(url: str) -> str:
    """The last part of a URL's path, for messages."""
    return unquote(urlsplit(url).path.rpartition("/")[2]) or url


def _download(url: str, partial: Path, progress: Progress) -> None:
    bundle = ca_bundle()
    handlers: list[urllib.request.BaseHandler] = [
        urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(bundle) if bundle else None))
    ]
    opener = urllib.request.build_opener(*handlers)
    have = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "orbit"})  # noqa: S310 - URLs come from uv.lock
    if have:
        request.add_header("Range", f"bytes={have}-")
    with opener.open(request, timeout=TIMEOUT_S) as answer:
        resumed = have > 0 and answer.status == 206
        done = have if resumed else 0
        total = done + int(answer.headers.get("Content-Length") or 0)
        with open(partial, "ab" if resumed else "wb") as file:
            while chunk := answer.read(CHUNK_BYTES):
                file.write(chunk)
                done += len(chunk)
                progress.advance(f"fetching {file_name(url)}", done, total, BYTES)
            file.flush()
            os.fsync(file.fileno())
        if done < total:
            raise ConnectionError(f"the connection ended after {done} of {total} bytes")
