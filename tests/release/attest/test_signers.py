"""Who signs: a key of this machine signs what a reader can use, and nothing else."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from cryptography.exceptions import InvalidSignature

from orbit.errors import InputError, MissingError
from orbit.release.attest.dsse import pae
from orbit.release.attest.keys import load_public, write_new
from orbit.release.attest.signers import LocalSigner, sign_statement
from orbit.release.attest.statement import PAYLOAD_TYPE, parse_statement
from tests.release.attest.world import signer, statement


def test_a_key_signs_the_encoding_of_the_standard(tmp_path: Path) -> None:
    made = write_new(tmp_path / "lab")
    envelope = sign_statement(statement(), LocalSigner.load(made.private))
    assert (envelope.payload_type, envelope.bundle) == (PAYLOAD_TYPE, b"")
    assert parse_statement(envelope.payload, "x") == statement()
    (signature,) = envelope.signatures
    assert signature.keyid == made.keyid
    key = load_public(made.public)
    key.verify(signature.sig, pae(PAYLOAD_TYPE, envelope.payload))
    with pytest.raises(InvalidSignature):
        key.verify(signature.sig, envelope.payload)


def test_a_key_that_is_absent_signs_nothing(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="there is no signing key"):
        LocalSigner.load(tmp_path / "absent")


def test_nothing_is_signed_that_no_reader_would_take() -> None:
    subjects = statement().subject
    for wrong in (
        msgspec.structs.replace(statement(), subject=()),
        msgspec.structs.replace(statement(), subject=subjects * 2),
        msgspec.structs.replace(statement(), predicate_type=""),
        msgspec.structs.replace(statement(), type_="https://in-toto.io/Statement/v0.1"),
    ):
        with pytest.raises(InputError):
            sign_statement(wrong, signer())
