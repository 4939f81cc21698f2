"""Authorization: challenges, tokens per scope, renewal, and where a password may not go."""

from __future__ import annotations

import json
from email.message import Message
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.core.console import Silent
from orbit.errors import CheckFailed, RefusedError
from orbit.image.registry import auth
from orbit.image.registry.auth import Authorizer, Challenge, choose, parse_challenges
from orbit.image.registry.credentials import Credentials
from orbit.image.registry.pull import pull
from orbit.image.registry.push import push
from orbit.image.registry.reference import parse_reference
from orbit.image.registry.transport import Request, Response
from tests.image.registry.conftest import QUICK
from tests.image.registry.fake import PASSWORD, USER, FakeRegistry


def test_challenges_are_taken_apart() -> None:
    text = 'Bearer realm="https://a/t?x=1",service="s, \\"q\\"" , scope=a:b , Basic realm="x", Negotiate'
    assert parse_challenges(text) == [
        Challenge("bearer", {"realm": "https://a/t?x=1", "service": 's, "q"', "scope": "a:b"}),
        Challenge("basic", {"realm": "x"}),
        Challenge("negotiate", {}),
    ]


def test_a_token_is_preferred_and_the_unknown_left_out() -> None:
    assert choose(["Basic realm=x", 'Bearer realm="https://a"']) == Challenge("bearer", {"realm": "https://a"})
    assert choose(["Negotiate", "Basic"]) == Challenge("basic", {})
    assert choose(["Bearer service=x"]) is None
    assert choose([]) is None


@given(st.text(max_size=200))
def test_any_header_is_read(text: str) -> None:
    assert all(item.scheme for item in parse_challenges(text))


def log_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, host: str, **entry: str) -> None:
    file = tmp_path / "auth.json"
    file.write_text(json.dumps({"auths": {host: entry or {"username": USER, "password": PASSWORD}}}))
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(file))


@pytest.mark.parametrize("scheme", ["basic", "bearer"])
def test_push_and_pull_with_a_login(
    registry: FakeRegistry, layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    registry.auth = scheme
    log_in(monkeypatch, tmp_path, registry.host)
    reference = parse_reference(f"{registry.host}/team/a:1")
    pushed = push(layout, reference, progress=Silent(), patience=QUICK)
    assert pull(reference, tmp_path / "got", progress=Silent(), patience=QUICK).digest == pushed.digest
    if scheme == "bearer":
        scopes = [query["scope"] for _method, query, _sent in registry.token_log]
        assert scopes == [["repository:team/a:pull,push"], ["repository:team/a:pull"], ["repository:team/a:pull"]]
        assert all(query["service"] == ["fake, really"] for _method, query, _sent in registry.token_log)
        assert all(sent.startswith("Basic ") for _method, _query, sent in registry.token_log)


def test_an_identity_token_is_exchanged(
    registry: FakeRegistry, layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.auth = "bearer"
    log_in(monkeypatch, tmp_path, registry.host, identitytoken="idt")
    push(layout, parse_reference(f"{registry.host}/a:1"), progress=Silent(), patience=QUICK)
    method, form, sent = registry.token_log[0]
    assert (method, sent, form["grant_type"], form["refresh_token"]) == ("POST", "", ["refresh_token"], ["idt"])


def test_without_a_login_a_token_is_asked_for_anonymously(registry: FakeRegistry, layout: Path, tmp_path: Path) -> None:
    registry.auth = "bearer"
    push(layout, parse_reference(f"{registry.host}/a:1"), progress=Silent(), patience=QUICK)
    assert {sent for _method, _query, sent in registry.token_log} == {""}


def test_a_token_that_ends_in_the_middle_is_fetched_anew(registry: FakeRegistry, layout: Path, tmp_path: Path) -> None:
    registry.auth, registry.token_uses = "bearer", 5
    reference = parse_reference(f"{registry.host}/a:1")
    pushed = push(layout, reference, progress=Silent(), patience=QUICK, chunk_bytes=20_000, jobs=1)
    assert pull(reference, tmp_path / "got", progress=Silent(), patience=QUICK).digest == pushed.digest
    assert len(registry.token_log) > 5


def test_a_wrong_password_is_refused_and_not_shown(
    registry: FakeRegistry, layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(monkeypatch, tmp_path, registry.host, username=USER, password="hunter2")
    for scheme in ("basic", "bearer"):
        registry.auth = scheme
        with pytest.raises(RefusedError, match="with the credentials at hand") as caught:
            push(layout, parse_reference(f"{registry.host}/a:1"), progress=Silent(), patience=QUICK)
        assert "hunter2" not in str(caught.value)
        assert f"docker login {registry.host}" in caught.value.fix


def test_nobody_logged_in_is_refused_with_the_remedy(registry: FakeRegistry, tmp_path: Path) -> None:
    registry.auth = "basic"
    with pytest.raises(RefusedError, match="nobody is logged in"):
        pull(parse_reference(f"{registry.host}/a:1"), tmp_path / "got", progress=Silent(), patience=QUICK)
    assert not (tmp_path / "got").exists()
    assert not (tmp_path / ".got.pull").exists()


def never(_request: Request) -> Response:
    pytest.fail("the password went out")


def test_a_password_does_not_go_to_a_token_server_without_tls() -> None:
    headers = Message()
    headers["WWW-Authenticate"] = 'Bearer realm="http://tokens.example.org/t"'
    known = Authorizer(Credentials("ann", "secret"), never)
    known.challenged(headers)
    with pytest.raises(RefusedError, match="without TLS"):
        known.header(("repository:a:pull",), encrypted=True)


@pytest.mark.parametrize("said", ["{}", '{"token": ""}', "[]", "no json", '{"token": "two words"}'])
def test_an_answer_that_is_no_token_is_told(
    registry: FakeRegistry, layout: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    registry.auth = "bearer"
    monkeypatch.setattr(Response, "read", lambda _self, _limit: said.encode())
    with pytest.raises(CheckFailed, match="token"):
        push(layout, parse_reference(f"{registry.host}/a:1"), progress=Silent(), patience=QUICK)


def test_a_token_is_kept_until_it_ends(monkeypatch: pytest.MonkeyPatch, registry: FakeRegistry, layout: Path) -> None:
    registry.auth = "bearer"
    now = [1000.0]
    monkeypatch.setattr(auth.time, "monotonic", lambda: now[0])
    push(layout, parse_reference(f"{registry.host}/a:1"), progress=Silent(), patience=QUICK)
    assert len(registry.token_log) == 2  # one for pushing, one for looking at what was pushed
