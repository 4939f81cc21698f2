"""Digests in RECORD's spelling, against what the standard library's decoder makes of them."""

from __future__ import annotations

import base64
import re

from hypothesis import given
from hypothesis import strategies as st

from orbit.core.digests import record_digest


@given(st.binary(min_size=1, max_size=64))
def test_it_is_urlsafe_without_padding_and_has_every_bit(raw: bytes) -> None:
    text = record_digest(raw)
    assert re.fullmatch(r"[A-Za-z0-9_-]+", text)
    assert base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)) == raw


def test_the_digest_of_nothing() -> None:
    empty = bytes.fromhex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    assert record_digest(empty) == "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
