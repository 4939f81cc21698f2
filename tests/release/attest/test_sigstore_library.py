"""Through sigstore: offline verification in a world of the test's own, signing there end to end, and every refusal."""

from __future__ import annotations

import base64
import copy
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orbit.errors import InputError, MissingError
from orbit.release.attest import sigstore_library
from orbit.release.attest.dsse import Envelope, pae, parse_envelope
from orbit.release.attest.signers import SigstoreSigner, sign_statement
from orbit.release.attest.sigstore_library import Identity
from orbit.release.attest.statement import PAYLOAD_TYPE, RELEASE, SMOKE, statement_bytes
from orbit.release.attest.trust import Believed, Cause, NotBelieved, Trust, Verified, verify
from tests.release.attest.world import IMAGE, NOW, statement
from tests.writers.sigstore_world import IDENTITY, ISSUER, World, serve

pytest.importorskip("sigstore", reason="the extra sigstore is not installed")

WORLD = World()
AMBIENT = (
    "GITHUB_ACTIONS", "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "GITLAB_CI",
    "SIGSTORE_ID_TOKEN", "BUILDKITE", "CIRCLECI", "GOOGLE_SERVICE_ACCOUNT_NAME",
)  # fmt: skip


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No identity, no proxy, no home of the machine's own."""
    for name in (*AMBIENT, "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "trusted_root.json"
    path.write_text(json.dumps(WORLD.trusted_root()))
    return path


def bundle(payload: bytes = statement_bytes(statement()), **who: str) -> dict[str, Any]:
    return WORLD.bundle(payload, PAYLOAD_TYPE, pae(PAYLOAD_TYPE, payload), **who)


def envelope(value: dict[str, Any]) -> Envelope:
    return parse_envelope(json.dumps(value).encode(), "b.intoto.json")


def check(value: Envelope, root: Path | None, *may_sign: str, identity: Identity | None = None) -> Verified:
    who = Believed(name="ci", may_sign=frozenset(may_sign or (SMOKE,)), identity=identity or Identity(IDENTITY, ISSUER))
    return verify(
        value,
        Trust(signers=(who,), trusted_root=root),
        predicate_type=SMOKE,
        subject_digest=IMAGE,
        now=NOW,
        where="b.intoto.json",
    )


def test_a_bundle_is_verified_without_network(root: Path) -> None:
    found = check(envelope(bundle()), root)
    assert (found.signer, found.identity, found.keyid) == ("ci", IDENTITY, "")
    assert found.statement == statement()


def test_of_several_identities_the_right_one_is_found(root: Path) -> None:
    others = [Believed(name=f"o{n}", may_sign=frozenset([SMOKE]), identity=Identity(f"o{n}", ISSUER)) for n in range(2)]
    right = Believed(name="ci", may_sign=frozenset([SMOKE]), identity=Identity(IDENTITY, ISSUER))
    trust = Trust(signers=(*others, right), trusted_root=root)
    assert verify(envelope(bundle()), trust, predicate_type=SMOKE, subject_digest=IMAGE, now=NOW).signer == "ci"


def test_an_identity_may_sign_only_its_kinds(root: Path) -> None:
    with pytest.raises(NotBelieved) as refused:
        check(envelope(bundle()), root, RELEASE)
    assert refused.value.cause is Cause.MAY_NOT_SIGN


@pytest.mark.parametrize(
    ("identity", "says"),
    [
        (Identity("somebody@example.com", ISSUER), "do not match somebody@example.com"),
        (Identity(IDENTITY, "https://other.example.com"), "expected 'https://other.example.com'"),
    ],
)
def test_another_identity_or_issuer(root: Path, identity: Identity, says: str) -> None:
    with pytest.raises(NotBelieved) as refused:
        check(envelope(bundle()), root, identity=identity)
    assert refused.value.cause is Cause.BAD_SIGNATURE
    assert "sigstore does not vouch for it" in refused.value.what
    assert says in refused.value.what


def edited(value: dict[str, Any]) -> None:
    payload = base64.b64decode(value["dsseEnvelope"]["payload"]).replace(b'"passed":true', b'"passed":null')
    value["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()


def another_entry(value: dict[str, Any]) -> None:
    value["verificationMaterial"]["tlogEntries"] = bundle()["verificationMaterial"]["tlogEntries"]


def no_entry(value: dict[str, Any]) -> None:
    value["verificationMaterial"]["tlogEntries"] = []


def another_certificate(value: dict[str, Any]) -> None:
    value["verificationMaterial"]["certificate"] = bundle()["verificationMaterial"]["certificate"]


def later(value: dict[str, Any]) -> None:
    entry = value["verificationMaterial"]["tlogEntries"][0]
    entry["integratedTime"] = str(int(entry["integratedTime"]) + 3600)


def no_certificate(value: dict[str, Any]) -> None:
    value["verificationMaterial"]["certificate"] = {"rawBytes": "AAAA"}


def other_root(value: dict[str, Any]) -> None:
    entry = value["verificationMaterial"]["tlogEntries"][0]
    entry["inclusionProof"]["rootHash"] = base64.b64encode(bytes(32)).decode()


@pytest.mark.parametrize(
    "change", [edited, another_entry, no_entry, another_certificate, later, no_certificate, other_root]
)
def test_a_bundle_that_was_tampered_with(root: Path, change: Callable[[dict[str, Any]], None]) -> None:
    whole = bundle()
    assert check(envelope(copy.deepcopy(whole)), root).signer == "ci"
    change(whole)
    with pytest.raises(NotBelieved) as refused:
        check(envelope(whole), root)
    assert refused.value.cause is Cause.BAD_SIGNATURE
    assert len(refused.value.what) < 1500


def test_a_bundle_that_two_readers_read_differently(root: Path) -> None:
    whole, other = bundle(), statement_bytes(statement(passed=None))
    good = envelope(copy.deepcopy(whole))
    with pytest.raises(NotBelieved, match="the bundle was signed over another payload"):
        check(replace(good, payload=other), root)
    # the library knows each field by two names
    whole["dsse_envelope"] = whole["dsseEnvelope"]
    whole["dsseEnvelope"] = {**whole["dsseEnvelope"], "payload": base64.b64encode(other).decode()}
    with pytest.raises(NotBelieved) as refused:
        check(envelope(whole), root)
    assert refused.value.cause is Cause.BAD_SIGNATURE


def test_another_world_is_not_believed(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps(World().trusted_root()))
    with pytest.raises(NotBelieved, match="sigstore does not vouch for it"):
        check(envelope(bundle()), other)
    with pytest.raises(NotBelieved, match="sigstore does not vouch for it"):
        check(envelope(bundle()), None)  # the public one, whose root is inside the library


def test_a_root_that_is_none_is_missing(tmp_path: Path) -> None:
    for text in (None, "{}", "not json", '{"mediaType": "x"}'):
        path = tmp_path / "r.json"
        if text is not None:
            path.write_text(text)
        with pytest.raises(MissingError, match="its trusted root cannot be had"):
            check(envelope(bundle()), path)


def test_without_the_library_the_extra_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sigstore.models", None)
    for work in (lambda: check(envelope(bundle()), root), lambda: sign_statement(statement(), SigstoreSigner())):
        with pytest.raises(MissingError, match="the sigstore library is not installed") as missing:
            work()
        assert "--extra sigstore" in missing.value.fix


# --- signing ----------------------------------------------------------------------------------------------------------


def identity_of_this_process(monkeypatch: pytest.MonkeyPatch, *, expires_in_s: int = 600) -> None:
    """What GitLab gives a job."""
    jwt = pytest.importorskip("jwt")
    now = int(time.time())
    claims = {"iss": ISSUER, "sub": IDENTITY, "aud": "sigstore", "iat": now - 5, "exp": now + expires_in_s}
    monkeypatch.setenv("GITLAB_CI", "true")
    monkeypatch.setenv("SIGSTORE_ID_TOKEN", jwt.encode(claims, "k" * 32, "HS256"))


def config(tmp_path: Path, url: str, world: World = WORLD) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(world.config(url)))
    return path


def test_signed_with_the_identity_of_a_job_and_verified(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity_of_this_process(monkeypatch)
    world = World()  # its certificates begin now, and are short-lived
    root.write_text(json.dumps(world.trusted_root()))
    with serve(world) as url:
        made = sign_statement(statement(), SigstoreSigner(config(tmp_path, url, world)))
    assert made.payload == statement_bytes(statement())
    assert check(made, root).identity == IDENTITY


def test_no_identity_is_missing_and_says_what_to_do() -> None:
    with pytest.raises(MissingError, match="this process has no identity") as missing:
        sign_statement(statement(), SigstoreSigner())
    assert "id-token: write" in missing.value.fix
    assert "--key FILE" in missing.value.fix


def test_an_identity_that_cannot_be_had_or_has_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITLAB_CI", "true")
    with pytest.raises(MissingError, match="SIGSTORE_ID_TOKEN not found"):
        sign_statement(statement(), SigstoreSigner())
    identity_of_this_process(monkeypatch, expires_in_s=-600)
    with pytest.raises(MissingError, match="cannot be had"):
        sign_statement(statement(), SigstoreSigner())


def test_services_that_do_not_answer_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity_of_this_process(monkeypatch)
    with serve(WORLD) as url:
        pass  # the address was free a moment ago, and nobody is there now
    with pytest.raises(MissingError, match="sigstore could not sign") as missing:
        sign_statement(statement(), SigstoreSigner(config(tmp_path, url)))
    assert "--key FILE" in missing.value.fix


def test_services_that_refuse_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity_of_this_process(monkeypatch)
    with serve(WORLD, status=403) as url, pytest.raises(MissingError, match=r"sigstore could not sign: .*403"):
        sign_statement(statement(), SigstoreSigner(config(tmp_path, url)))


def test_the_public_services_out_of_reach_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    identity_of_this_process(monkeypatch)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    with pytest.raises(MissingError, match="sigstore could not sign"):
        sign_statement(statement(), SigstoreSigner())


def test_a_configuration_that_is_none_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity_of_this_process(monkeypatch)
    path = tmp_path / "config.json"
    with pytest.raises(InputError, match="no such file"):
        sigstore_library.sign(b"{}", path)
    path.write_text("{}")
    with pytest.raises(InputError, match="no ClientTrustConfig"):
        sigstore_library.sign(b"{}", path)
