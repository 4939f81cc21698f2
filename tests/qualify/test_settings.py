"""Settings: read and checked."""

from __future__ import annotations

import pytest

from orbit.errors import InputError
from orbit.qualify.records import Settings
from orbit.qualify.settings import settings_of


def test_settings_are_read_and_bad_ones_refused() -> None:
    assert settings_of([]) == Settings()
    assert settings_of(["tf32=true", "threads=4", "attention=math"]) == Settings(tf32=True, threads=4, attention="math")
    for text, said in (
        ("tf32", "no value"),
        ("speed=9", "no such"),
        ("tf32=maybe", "tf32"),
        ("attention=x", "x"),
    ):
        with pytest.raises(InputError, match=said):
            settings_of([text])
