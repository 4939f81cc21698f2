"""The one module that knows the ``sigstore`` library, which is an extra: imported when it is used, and not before.

Verifying needs no network: certificates and the keys of the logs come from a trusted root, a file (see
:class:`orbit.release.attest.trust.Trust`) or the one inside the library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orbit.errors import InputError, MissingError, OrbitError

if TYPE_CHECKING:
    from sigstore.models import ClientTrustConfig
    from sigstore.verify import Verifier

INSTALL = "install Orbit with its extra: uv sync --extra sigstore; or sign with a key: --key FILE"
NO_IDENTITY = (
    "in GitHub Actions give the job `permissions: id-token: write`, in GitLab an `id_tokens: SIGSTORE_ID_TOKEN:` with "
    "`aud: sigstore`; elsewhere sign with a key: --key FILE"
)
NO_SERVICE = "check the connection and the proxy variables and try again; or sign with a key: --key FILE"
ROOT_BYTES = 16 << 20


class NotProved(Exception):
    """The bundle does not prove that one of the identities signed; the text says why."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who sigstore says somebody is."""

    identity: str
    """What the certificate is for: a workflow's address, an e-mail address."""
    issuer: str
    """Who says so: ``https://token.actions.githubusercontent.com``."""


def installed() -> None:
    """Raises :class:`MissingError`, naming the extra, when the library is not there."""
    try:
        import sigstore.models
    except ImportError as error:
        raise MissingError(f"the sigstore library is not installed ({error})", fix=INSTALL) from None
    del sigstore


def sign(payload: bytes, config: Path | None) -> bytes:
    """A sigstore bundle (JSON) around the statement ``payload``, signed with the identity of this process.

    Raises :class:`MissingError` without library, identity or service; see :class:`SigstoreSigner`.
    """
    installed()
    from sigstore.dsse import Statement
    from sigstore.oidc import IdentityError, IdentityToken, detect_credential
    from sigstore.sign import SigningContext

    try:
        raw = detect_credential()
        token = IdentityToken(raw) if raw else None
    except (IdentityError, OSError) as error:
        raise MissingError(f"sigstore: the identity of this process cannot be had: {error}", fix=NO_IDENTITY) from None
    if token is None:
        raise MissingError("sigstore: this process has no identity that could be asked for", fix=NO_IDENTITY)
    settings = _config(config)
    try:
        context = SigningContext.from_trust_config(settings)
        with context.signer(token) as signer:
            return signer.sign_dsse(Statement(payload)).to_json().encode()
    except Exception as error:  # errors of five libraries without a common base
        raise _no_answer(error) from error


def verify(
    bundle: bytes, identities: Sequence[Identity], trusted_root: Path | None, where: str
) -> tuple[Identity, str, bytes]:
    """Which of ``identities`` signed ``bundle``, the type of the payload, and the payload. Needs no network.

    Raises :class:`NotProved` saying why it is none of them, :class:`MissingError` without the library or its root.
    """
    installed()
    from sigstore.models import Bundle
    from sigstore.verify import policy

    try:
        read = Bundle.from_json(bundle)
    except Exception as error:  # noqa: BLE001 - whatever a hostile bundle brings to light in its reader: it is no proof
        raise NotProved(f"not a bundle that sigstore can read: {_line(error)}") from None
    verifier = _verifier(trusted_root)
    reasons = []
    for each in identities:
        try:
            kind, payload = verifier.verify_dsse(read, policy.Identity(identity=each.identity, issuer=each.issuer))
        except Exception as error:  # noqa: BLE001 - as above
            reasons.append(_line(error))
        else:
            return each, kind, payload
    raise NotProved("; ".join(dict.fromkeys(reasons)) or f"{where}: no identity is trusted")


def _config(path: Path | None) -> ClientTrustConfig:
    from sigstore.models import ClientTrustConfig

    if path is not None:
        try:
            return ClientTrustConfig.from_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"{path}: no such file", fix="give a ClientTrustConfig of sigstore, JSON") from None
        except ValueError as error:
            raise InputError(f"{path}: no ClientTrustConfig: {_line(error)}", fix="see sigstore's own page") from None
    try:
        return ClientTrustConfig.production()
    except Exception as error:  # as above
        raise _no_answer(error) from error


def _verifier(trusted_root: Path | None) -> Verifier:
    from sigstore.errors import Error
    from sigstore.models import TrustedRoot
    from sigstore.verify import Verifier

    try:
        if trusted_root is None:
            return Verifier.production(offline=True)
        return Verifier(trusted_root=TrustedRoot.from_file(str(trusted_root)))
    except (OSError, Error, ValueError) as error:
        raise MissingError(
            f"sigstore: its trusted root cannot be had ({trusted_root or 'the one in the library'}): {_line(error)}",
            fix="name a file trusted_root.json in the trust (docs/attest.md)",
        ) from None


def _no_answer(error: BaseException) -> OrbitError:
    """A service that could not be reached or did not do its part."""
    return MissingError(f"sigstore could not sign: {_line(error)}", fix=NO_SERVICE)


def _line(error: BaseException) -> str:
    """The error in one line, with what is behind it when it does not say."""
    text = " ".join(str(error).split())[:400] or type(error).__name__
    cause = error.__cause__ or error.__context__
    return text if cause is None or str(cause) in text else f"{text} ({' '.join(str(cause).split())[:200]})"
