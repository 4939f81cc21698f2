"""Digests as the RECORD of an installed distribution spells them."""

from __future__ import annotations

import base64


def record_digest(raw: bytes) -> str:
    """``raw`` without the name of its algorithm: urlsafe base64 without padding (PyPA, RECORD)."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
