"""Envelopes: the bytes that are signed are those of the standard, and other libraries open what is made here."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from hypothesis import given
from hypothesis import strategies as st

from orbit.errors import InputError
from orbit.release.attest import dsse
from orbit.release.attest.dsse import (
    MAX_FILE_BYTES,
    MAX_SIGNATURES,
    Envelope,
    Signature,
    envelope_bytes,
    pae,
    parse_envelope,
    read_envelope,
    write_envelope,
)
from orbit.release.attest.signers import LocalSigner, sign_statement
from orbit.release.attest.statement import PAYLOAD_TYPE, parse_statement, statement_bytes
from tests.release.attest.world import signed, signer, statement

# The test vector of protocol.md of DSSE 1.0: key, and the signature over "hello world" of this type.
VECTOR_TYPE, VECTOR_BODY = "http://example.com/HelloWorld", b"hello world"
VECTOR_X = 46950820868899156662930047687818585632848591499744589407958293238635476079160
VECTOR_Y = 5640078356564379163099075877009565129882514886557779369047442380624545832820
VECTOR_SIG = "A3JqsQGtVsJ2O2xqrI5IcnXip5GToJ3F+FnZ+O88SjtR6rDAajabZKciJTfUiHqJPcIAriEGAHTVeCUjW2JIZA=="
VECTOR = {
    "payload": "aGVsbG8gd29ybGQ=",
    "payloadType": VECTOR_TYPE,
    "signatures": [{"sig": VECTOR_SIG}],
}


def test_the_encoding_is_that_of_the_standard() -> None:
    assert pae(VECTOR_TYPE, VECTOR_BODY) == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert pae("", b"") == b"DSSEv1 0  0 "
    assert pae("\xe9", b"\xff\x00") == b"DSSEv1 2 \xc3\xa9 2 \xff\x00"


def test_the_signature_of_the_standard_holds_for_our_bytes() -> None:
    envelope = parse_envelope(json.dumps(VECTOR).encode(), "vector")
    key = ec.EllipticCurvePublicNumbers(VECTOR_X, VECTOR_Y, ec.SECP256R1()).public_key()
    raw = envelope.signatures[0].sig
    sig = encode_dss_signature(int.from_bytes(raw[:32]), int.from_bytes(raw[32:]))
    key.verify(sig, pae(envelope.payload_type, envelope.payload), ec.ECDSA(hashes.SHA256()))
    with pytest.raises(InvalidSignature):
        key.verify(sig, pae(envelope.payload_type, envelope.payload + b"!"), ec.ECDSA(hashes.SHA256()))


@given(st.text(), st.binary(), st.text(), st.binary())
def test_two_things_never_have_one_encoding(type_a: str, body_a: bytes, type_b: str, body_b: bytes) -> None:
    try:
        equal = pae(type_a, body_a) == pae(type_b, body_b)
    except UnicodeEncodeError:
        return
    assert equal == ((type_a, body_a) == (type_b, body_b))


ENVELOPES = st.builds(
    Envelope,
    payload=st.binary(max_size=200),
    payload_type=st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    signatures=st.lists(
        st.builds(
            Signature,
            sig=st.binary(min_size=1, max_size=80),
            keyid=st.text(st.characters(exclude_categories=["Cs"]), max_size=70),
        ),
        min_size=1,
        max_size=4,
    ).map(tuple),
)


@given(ENVELOPES)
def test_written_and_read_it_is_the_same(envelope: Envelope) -> None:
    data = envelope_bytes(envelope)
    assert parse_envelope(data, "x") == envelope
    assert envelope_bytes(parse_envelope(data, "x")) == data


@given(st.binary(max_size=300))
def test_any_bytes_are_an_envelope_or_a_sentence(data: bytes) -> None:
    with pytest.raises(InputError, match=r"^here: "):
        parse_envelope(data, "here")


@given(st.integers(0, 10_000))
def test_a_truncated_envelope_is_a_sentence(at: int) -> None:
    data = envelope_bytes(ONE).rstrip()
    with pytest.raises(InputError, match=r"^cut: "):
        parse_envelope(data[: at % len(data)], "cut")


ONE = signed(signer())


def changed(**changes: Any) -> bytes:
    fields = {**json.loads(envelope_bytes(ONE)), **changes}
    return json.dumps({key: value for key, value in fields.items() if value is not ...}).encode()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"payload": ...}, "payload is missing"),
        ({"payload": 5}, "payload is missing or not a text"),
        ({"payload": "YQ"}, "payload: not base64"),
        ({"payloadType": ...}, "payloadType is missing"),
        ({"payloadType": "x" * 600}, "payloadType has 600 characters"),
        ({"signatures": ...}, "signatures is not a list"),
        ({"signatures": []}, "0 signatures"),
        ({"signatures": [{"sig": "YQ=="}] * (MAX_SIGNATURES + 1)}, "17 signatures"),
        ({"signatures": ["YQ=="]}, "signatures[0]: not an object"),
        ({"signatures": [{"sig": "YQ=="}, {}]}, "signatures[1]: sig is missing"),
        ({"signatures": [{"sig": ""}]}, "a signature of 0 bytes"),
        ({"signatures": [{"sig": "YQ==", "keyid": 5}]}, "keyid is missing or not a text"),
        ({"signatures": [{"sig": base64.b64encode(bytes(20_000)).decode()}]}, "a signature of 20000 bytes"),
        ({"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json"}, "a sigstore bundle of something else"),
    ],
)
def test_what_is_no_envelope_is_refused(change: dict[str, Any], says: str) -> None:
    assert parse_envelope(changed(), "f") == ONE
    with pytest.raises(InputError) as refused:
        parse_envelope(changed(**change), "f")
    assert says in refused.value.what


def test_two_payloads_in_one_envelope_are_refused() -> None:
    data = envelope_bytes(ONE).replace(b'{"payload":', b'{"payload":"YQ==","payload":', 1)
    with pytest.raises(InputError, match="'payload' stands twice"):
        parse_envelope(data, "f")


def test_fields_of_a_later_standard_are_passed_over() -> None:
    signature = {**json.loads(envelope_bytes(ONE))["signatures"][0], "cert": "x"}
    assert parse_envelope(changed(signatures=[signature], more=1), "f") == ONE
    assert parse_envelope(changed(signatures=[{"sig": "YQ==", "keyid": None}]), "f").signatures[0].keyid == ""


def test_huge_files_are_refused_before_they_are_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "huge.intoto.json"
    with path.open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(InputError, match=r"huge\.intoto\.json: more than 48 MB"):
        read_envelope(path)
    monkeypatch.setattr(dsse, "MAX_PAYLOAD_BYTES", 10)
    with pytest.raises(InputError, match="a payload of more than"):
        parse_envelope(envelope_bytes(ONE), "f")
    monkeypatch.setattr(dsse, "MAX_FILE_BYTES", 10)
    with pytest.raises(InputError, match="this is no attestation"):
        parse_envelope(envelope_bytes(ONE), "f")


def test_files_come_back(tmp_path: Path) -> None:
    path = tmp_path / "a" / "smoke.intoto.json"
    write_envelope(path, ONE)
    assert read_envelope(path) == ONE
    with pytest.raises(InputError, match="no such file"):
        read_envelope(tmp_path / "absent")


# --- with other libraries ---------------------------------------------------------------------------------------------


def test_securesystemslib_opens_what_is_made_here() -> None:
    theirs = pytest.importorskip("securesystemslib.dsse", reason="securesystemslib is not installed")
    from securesystemslib.exceptions import VerificationError
    from securesystemslib.signer import SSlibKey

    who = signer()
    made = envelope_bytes(signed(who))
    key = SSlibKey.from_crypto(who.key.public_key(), keyid=who.keyid)
    read = theirs.Envelope.from_dict(json.loads(made))
    assert read.pae() == pae(PAYLOAD_TYPE, statement_bytes(statement()))
    assert read.verify([key], 1) == {who.keyid: key}
    assert parse_statement(read.payload, "theirs") == statement()
    stranger = SSlibKey.from_crypto(signer().key.public_key(), keyid=who.keyid)
    with pytest.raises(VerificationError):
        read.verify([stranger], 1)


def test_what_securesystemslib_makes_is_opened_here() -> None:
    theirs = pytest.importorskip("securesystemslib.dsse", reason="securesystemslib is not installed")
    from securesystemslib.signer import CryptoSigner, SSlibKey

    who = signer()
    public = SSlibKey.from_crypto(who.key.public_key(), keyid=who.keyid)
    body = statement_bytes(statement())
    made = theirs.Envelope(body, PAYLOAD_TYPE, {})
    made.sign(CryptoSigner(who.key, public))
    # Ed25519 has one signature for one message and one key, so the envelopes are equal to the byte
    assert parse_envelope(json.dumps(made.to_dict()).encode(), "theirs") == sign_statement(statement(), who)


def test_sigstores_own_classes_open_what_is_made_here() -> None:
    theirs = pytest.importorskip("sigstore.dsse", reason="the extra sigstore is not installed")
    who = signer()
    envelope = signed(who)
    read = theirs.Envelope._from_json(envelope_bytes(envelope))
    assert read.pae() == pae(PAYLOAD_TYPE, envelope.payload)
    assert read.signature == envelope.signatures[0].sig
    assert parse_envelope(read.to_json().encode(), "theirs") == envelope


def test_what_sigstores_classes_make_is_opened_here() -> None:
    theirs = pytest.importorskip("sigstore.dsse", reason="the extra sigstore is not installed")
    key = ec.generate_private_key(ec.SECP256R1())
    made = theirs._sign(key, theirs.Statement(statement_bytes(statement())))
    read = parse_envelope(made.to_json().encode(), "theirs")
    assert parse_statement(read.payload, "theirs") == statement()
    key.public_key().verify(read.signatures[0].sig, pae(read.payload_type, read.payload), ec.ECDSA(hashes.SHA256()))


def test_one_key_signs_alike_every_time() -> None:
    who: LocalSigner = signer()
    assert envelope_bytes(signed(who)) == envelope_bytes(signed(who))
