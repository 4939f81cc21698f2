"""Credentials: every place they lie in, helpers, and that no secret shows anywhere."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from orbit.errors import CheckFailed, InputError, MissingError
from orbit.image.registry.credentials import Credentials, config_files, find_credentials

HOST = "host.org:5000"
AUTH = base64.b64encode(b"ann:open:sesame").decode()


def put(path: Path, document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    return tmp_path / "docker" / "config.json"


def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    path = tmp_path / "bin" / "docker-credential-test"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")


def test_nobody_logged_in(docker: Path) -> None:
    assert find_credentials(HOST, "a/b") is None
    put(docker, {"auths": {"other.org": {"auth": AUTH}}, "experimental": True})
    assert find_credentials(HOST, "a/b") is None


@pytest.mark.parametrize("key", [HOST, f"https://{HOST}", f"https://{HOST}/v1/", f"{HOST}/v2/", f"{HOST}/a"])
def test_auths_by_every_spelling_of_the_host(docker: Path, key: str) -> None:
    put(docker, {"auths": {key: {"auth": AUTH}}})
    assert find_credentials(HOST, "a/b") == Credentials("ann", "open:sesame")


def test_the_most_special_entry_wins(docker: Path) -> None:
    def entry(name: str) -> dict[str, str]:
        return {"username": name, "password": "p"}

    put(docker, {"auths": {HOST: entry("host"), f"{HOST}/a": entry("space"), f"{HOST}/a/b": entry("repository")}})
    assert find_credentials(HOST, "a/b") == Credentials("repository", "p")
    assert find_credentials(HOST, "a/c") == Credentials("space", "p")
    assert find_credentials(HOST, "c") == Credentials("host", "p")


def test_docker_hub_has_a_name_of_its_own(docker: Path) -> None:
    put(docker, {"auths": {"https://index.docker.io/v1/": {"auth": AUTH}}})
    assert find_credentials("docker.io", "library/debian") == Credentials("ann", "open:sesame")


def test_an_identity_token_is_found(docker: Path) -> None:
    put(docker, {"auths": {HOST: {"identitytoken": "secret"}}})
    assert find_credentials(HOST, "a") == Credentials(identity_token="secret")


def test_the_files_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, docker: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    assert config_files() == (tmp_path / "run" / "containers" / "auth.json", docker)
    monkeypatch.delenv("DOCKER_CONFIG")
    monkeypatch.setenv("HOME", "/home/ann")
    assert config_files()[1] == Path("/home/ann/.docker/config.json")
    put(docker, {"auths": {HOST: {"username": "docker", "password": "p"}}})
    named = put(tmp_path / "named.json", {"auths": {HOST: {"username": "named", "password": "p"}}})
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(named))
    assert config_files() == (named,)
    assert find_credentials(HOST, "a") == Credentials("named", "p")


@pytest.mark.parametrize("text", ["", "{", '{"auths": []}', '{"auths": {"host.org:5000": {"auth": 5}}}', "[" * 100_000])
def test_a_broken_file_is_bad_input_and_not_quoted(docker: Path, text: str) -> None:
    docker.parent.mkdir()
    docker.write_text(text)
    with pytest.raises(InputError, match="not a file of registry credentials"):
        find_credentials(HOST, "a")


@pytest.mark.parametrize("secret", ["c2VjcmV0", "%%%secret", base64.b64encode(b"\xff\xfe:secret").decode()])
def test_a_broken_entry_is_bad_input_and_not_quoted(docker: Path, secret: str) -> None:
    put(docker, {"auths": {HOST: {"auth": secret}}})
    with pytest.raises(InputError) as caught:
        find_credentials(HOST, "a")
    assert HOST in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_helper_is_asked_for_its_host(docker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper(tmp_path, monkeypatch, f"""cat > {tmp_path}/asked; echo '{{"Username": "ann", "Secret": "open"}}'""")
    put(docker, {"credHelpers": {HOST: "test"}, "credsStore": "missing"})
    assert find_credentials(HOST, "a") == Credentials("ann", "open")
    assert (tmp_path / "asked").read_text() == HOST


def test_the_store_is_asked_for_everything_else(docker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper(tmp_path, monkeypatch, f"""cat > {tmp_path}/asked; echo '{{"Username": "<token>", "Secret": "t"}}'""")
    put(docker, {"auths": {HOST: {}}, "credsStore": "test"})
    assert find_credentials(HOST, "a") == Credentials(identity_token="t")
    assert find_credentials("docker.io", "library/a") == Credentials(identity_token="t")
    assert (tmp_path / "asked").read_text() == "https://index.docker.io/v1/"


def test_a_helper_without_an_entry_means_nobody(docker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper(tmp_path, monkeypatch, "echo 'credentials not found in native keychain'; exit 1")
    put(docker, {"credsStore": "test"})
    assert find_credentials(HOST, "a") is None


@pytest.mark.parametrize("script", ["echo secret; echo secret >&2; exit 3", "echo secret"])
def test_a_helper_that_fails_is_told_without_what_it_said(
    docker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    helper(tmp_path, monkeypatch, script)
    put(docker, {"credsStore": "test"})
    with pytest.raises(CheckFailed) as caught:
        find_credentials(HOST, "a")
    assert "secret" not in str(caught.value)


def test_a_helper_that_is_missing_or_misnamed(docker: Path) -> None:
    put(docker, {"credsStore": "surely-not-installed"})
    with pytest.raises(MissingError, match="docker-credential-surely-not-installed"):
        find_credentials(HOST, "a")
    put(docker, {"credsStore": "../../bin/sh"})
    with pytest.raises(InputError, match="not the name of a credential helper"):
        find_credentials(HOST, "a")


def test_no_secret_shows_in_a_repr() -> None:
    assert "sesame" not in repr(Credentials("ann", "sesame", "sesame"))
    assert Credentials("ann", "open:sesame").basic == f"Basic {AUTH}"
