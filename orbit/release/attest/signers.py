"""Who signs: a key in a file, or an identity that sigstore vouches for. Both behind one protocol."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from orbit.release.attest import sigstore_library
from orbit.release.attest.dsse import Envelope, Signature, pae, parse_envelope
from orbit.release.attest.keys import keyid_of, load_private
from orbit.release.attest.statement import PAYLOAD_TYPE, Statement, parse_statement, statement_bytes


class Signer(Protocol):
    """Puts its name to the bytes of a statement."""

    def sign(self, payload: bytes) -> Envelope:
        """``payload`` (media type :data:`PAYLOAD_TYPE`) in an envelope with one signature.

        Raises :class:`MissingError` when it cannot sign here and now.
        """


@dataclass(frozen=True, slots=True)
class LocalSigner:
    """Signs with an Ed25519 key of this machine. Needs no network; says nothing of when."""

    key: Ed25519PrivateKey

    @staticmethod
    def load(path: Path) -> LocalSigner:
        """With the private key in ``path``; raises what :func:`orbit.release.attest.keys.load_private` raises."""
        return LocalSigner(load_private(path))

    @property
    def keyid(self) -> str:
        """Id of the key, see :mod:`orbit.release.attest.keys`."""
        return keyid_of(self.key.public_key())

    def sign(self, payload: bytes) -> Envelope:
        """One signature, equal whenever key and payload are (RFC 8032)."""
        signature = Signature(sig=self.key.sign(pae(PAYLOAD_TYPE, payload)), keyid=self.keyid)
        return Envelope(payload=payload, payload_type=PAYLOAD_TYPE, signatures=(signature,))


@dataclass(frozen=True, slots=True)
class SigstoreSigner:
    """Signs with the identity that this process has (GitHub Actions, GitLab CI, a cloud machine), through sigstore.

    A short-lived certificate says who it was and a public log when: both go, with the hash of the statement, to the
    services of sigstore, and everybody can read them there.
    """

    config: Path | None = None
    """A file with addresses and keys of another sigstore than the public one (its ClientTrustConfig, JSON)."""

    def sign(self, payload: bytes) -> Envelope:
        """The envelope in a sigstore bundle.

        Raises :class:`MissingError`, saying what to do, when the library is not installed, when this process has no
        identity, and when a service does not answer.
        """
        return parse_envelope(sigstore_library.sign(payload, self.config), "what sigstore made")


def sign_statement(statement: Statement, signer: Signer) -> Envelope:
    """Sign ``statement``. What is signed is read once as a reader will read it: nothing is signed that none can use.

    Raises :class:`InputError` for a statement that is none, and what the signer raises.
    """
    payload = statement_bytes(statement)
    parse_statement(payload, "the statement to sign")
    return signer.sign(payload)
