"""What a registry's refusals become."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from orbit.errors import CheckFailed, ExitCode, MissingError, OrbitError, RefusedError
from orbit.image.registry.answers import problem, retry_after
from orbit.image.registry.transport import Broken, Request, Response, Transport
from tests.image.registry.fake import FakeRegistry


def answer(registry: FakeRegistry, transport: Transport, status: int) -> Response:
    registry.fault("GET", "/x", "status", status=status)
    return transport.open(Request("GET", f"http://{registry.host}/x?secret", {}))


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [(400, CheckFailed, 1), (401, RefusedError, 4), (403, RefusedError, 4), (404, MissingError, 3),
     (405, CheckFailed, 1),      (429, Broken, 3), (500, Broken, 3), (504, Broken, 3)],
)  # fmt: skip
def test_each_status_has_its_kind(
    registry: FakeRegistry, transport: Transport, status: int, kind: type[OrbitError], code: int
) -> None:
    with answer(registry, transport, status) as response:
        found = problem(response, "GET", host="h", known=False)
    assert type(found) is kind
    assert found.code == ExitCode(code)
    assert f"/x: {status} FAULT: as told" in found.what
    assert "secret" not in str(found)
    assert found.fix


def test_the_registrys_words_are_cleaned(
    registry: FakeRegistry, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = b'{"errors":[{"code":"A","message":"one\\n\\u001b[31mtwo"},{"code":"B"}]}'
    with answer(registry, transport, 400) as response:
        monkeypatch.setattr(response, "read", lambda _limit: said)
        assert problem(response, "GET", host="h", known=False).what.endswith("400 A: one [31mtwo; B")
    for words in (b"<html>", b"", b"\xff", b'{"errors": 5}', b"[" * 100_000):
        with answer(registry, transport, 400) as response:
            monkeypatch.setattr(response, "read", lambda _limit, words=words: words)
            assert problem(response, "GET", host="h", known=False).what.endswith("/x: 400")


def test_the_time_to_wait() -> None:
    assert retry_after("12") == 12.0
    assert retry_after("") is None
    assert retry_after("soon") is None
    assert retry_after("-5") is None
    assert retry_after("Mon, 30 Feb 2026 99:99:99 GMT") is None
    assert retry_after("Thu, 01 Jan 1970 00:00:00 GMT") == 0.0
    assert 100 < (retry_after(formatdate(time.time() + 130, usegmt=True)) or 0) <= 130
