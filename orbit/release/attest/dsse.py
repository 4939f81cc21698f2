"""DSSE v1: an envelope around a payload that says who signed it.

Form: secure-systems-lab/dsse, protocol.md and envelope.md, version 1.0. What is signed is not the JSON but the bytes of
:func:`pae`, so nothing of the envelope has to be brought into a normal form. ``keyid`` is a hint and is signed by
nobody: it never decides anything.

A file ``*.intoto.json`` holds such an envelope, or a sigstore bundle, which has one inside beside certificate and log
entry.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orbit.core.files import read_file, write_atomic
from orbit.core.records import canonical
from orbit.errors import InputError
from orbit.release.attest.strict import MAKE_ANEW, decode_base64, strict_json

SUFFIX = ".intoto.json"
MAX_PAYLOAD_BYTES = 32 << 20
MAX_FILE_BYTES = 48 << 20
"""Base64 takes a third more."""
MAX_SIGNATURES = 16
MAX_SIGNATURE_BYTES = 16 << 10
MAX_NAME_CHARS = 512
"""Of a keyid or a payload type."""
BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle"
"""Start of the media type of a sigstore bundle, whatever its version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One signature over :func:`pae` of the envelope."""

    sig: bytes
    keyid: str = ""
    """Hint which key it may be; signed by nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A payload and who signed it. Nothing in it is true before :func:`orbit.release.attest.trust.verify` said so."""

    payload: bytes
    payload_type: str
    signatures: tuple[Signature, ...]
    bundle: bytes = b""
    """The sigstore bundle the envelope came in, as it was read; empty for an envelope of its own."""


def pae(payload_type: str, payload: bytes) -> bytes:
    """Pre-authentication encoding, the bytes that are signed: ``DSSEv1 SP LEN(type) SP type SP LEN(body) SP body``.

    Lengths are numbers of bytes in decimal digits.
    """
    name = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(name), name, len(payload), payload)


def envelope_bytes(envelope: Envelope) -> bytes:
    """The content of a file: the bundle as it came, or the envelope as JSON with sorted keys."""
    if envelope.bundle:
        return envelope.bundle
    signatures = [
        {"sig": base64.b64encode(signature.sig).decode()} | ({"keyid": signature.keyid} if signature.keyid else {})
        for signature in envelope.signatures
    ]
    payload = base64.b64encode(envelope.payload).decode()
    return canonical({"payload": payload, "payloadType": envelope.payload_type, "signatures": signatures}) + b"\n"


def write_envelope(path: Path, envelope: Envelope) -> None:
    """Write ``envelope`` to ``path``, whole or not at all."""
    write_atomic(path, envelope_bytes(envelope))


def read_envelope(path: Path) -> Envelope:
    """Read a file ``*.intoto.json``. Raises :class:`InputError` naming the file and what is wrong with it."""
    try:
        data = read_file(path, MAX_FILE_BYTES)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", fix="give an attestation, a file *.intoto.json") from None
    return parse_envelope(data, str(path))


def parse_envelope(data: bytes, where: str) -> Envelope:
    """Read an envelope, or the one in a sigstore bundle; ``where`` names it in errors.

    Fields that are not known are passed over, as the standard demands: none of them is signed. Raises
    :class:`InputError` for everything that is no envelope or is larger than any honest one.
    """
    if len(data) > MAX_FILE_BYTES:
        raise InputError(f"{where}: more than {MAX_FILE_BYTES >> 20} MB", fix="this is no attestation")
    value = strict_json(data, where)
    if not isinstance(value, dict):
        raise InputError(f"{where}: not an object", fix=MAKE_ANEW)
    media_type = value.get("mediaType")
    if isinstance(media_type, str) and media_type.startswith(BUNDLE_TYPE):
        inner = value.get("dsseEnvelope")
        if not isinstance(inner, dict):
            raise InputError(f"{where}: a sigstore bundle of something else than a statement", fix=MAKE_ANEW)
        return _envelope(inner, f"{where}: dsseEnvelope", data)
    return _envelope(value, where, b"")


def _envelope(value: dict[str, Any], where: str, bundle: bytes) -> Envelope:
    payload_type = _text(value, "payloadType", where)
    payload = _text(value, "payload", where, limit=MAX_FILE_BYTES)
    signatures = value.get("signatures")
    if not isinstance(signatures, list):
        raise InputError(f"{where}: signatures is not a list", fix=MAKE_ANEW)
    if not 1 <= len(signatures) <= MAX_SIGNATURES:
        raise InputError(
            f"{where}: {len(signatures)} signatures, there must be 1 to {MAX_SIGNATURES}",
            fix="sign it: orbit gate attest DOCUMENT --key FILE",
        )
    body = decode_base64(payload, f"{where}: payload")
    if len(body) > MAX_PAYLOAD_BYTES:
        raise InputError(f"{where}: a payload of more than {MAX_PAYLOAD_BYTES >> 20} MB", fix="this is no attestation")
    return Envelope(
        payload=body,
        payload_type=payload_type,
        signatures=tuple(_signature(item, f"{where}: signatures[{n}]") for n, item in enumerate(signatures)),
        bundle=bundle,
    )


def _signature(item: object, where: str) -> Signature:
    if not isinstance(item, dict):
        raise InputError(f"{where}: not an object", fix=MAKE_ANEW)
    text = _text(item, "sig", where, limit=2 * MAX_SIGNATURE_BYTES)
    sig = decode_base64(text, f"{where}: sig")
    if not 1 <= len(sig) <= MAX_SIGNATURE_BYTES:
        raise InputError(f"{where}: a signature of {len(sig)} bytes", fix=MAKE_ANEW)
    keyid = _text(item, "keyid", where) if item.get("keyid") is not None else ""
    return Signature(sig=sig, keyid=keyid)


def _text(value: dict[str, Any], key: str, where: str, *, limit: int = MAX_NAME_CHARS) -> str:
    """The text under ``key``, which must be there and not be longer than ``limit``."""
    text = value.get(key)
    if not isinstance(text, str):
        raise InputError(f"{where}: {key} is missing or not a text", fix=MAKE_ANEW)
    if len(text) > limit:
        raise InputError(f"{where}: {key} has {len(text)} characters, at most {limit} make sense", fix=MAKE_ANEW)
    return text
