"""Every reader takes its seeds, and whatever becomes of them when bytes are changed, cut, doubled or put in."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orbit.errors import OrbitError
from tests.fuzz.readers import READERS


@pytest.mark.parametrize("name", READERS)
def test_seeds_are_read_without_complaint(name: str) -> None:
    seeds = list(READERS[name].seeds())
    assert len(seeds) >= 2
    for seed in seeds:
        READERS[name].read(seed)


@st.composite
def mutations(draw: st.DrawFn, seed: bytes) -> bytes:
    """``seed`` with a few changes of the kinds that truncation, bit rot and malice make."""
    data = bytearray(seed)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.integers(0, 4)):
            case 0:
                data[at : at + 1] = bytes([draw(st.integers(0, 255))])
            case 1:
                del data[at:]
            case 2:
                value = draw(st.sampled_from([0, 1, 0xFF, 0xFFFF, 2**31, 2**32 - 1, 2**63, 2**64 - 1]))
                data[at : at + 8] = value.to_bytes(8, "little")
            case 3:
                data[at:at] = data[at : at + draw(st.integers(1, 64))]
            case _:
                data[at:at] = draw(st.binary(max_size=16))
    return bytes(data)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_damage_is_refused_by_name_or_read_never_a_crash(name: str, data: st.DataObject) -> None:
    seed = data.draw(st.sampled_from(list(READERS[name].seeds())))
    damaged = data.draw(mutations(seed))
    try:
        READERS[name].read(damaged)
    except OrbitError as error:
        assert error.what  # noqa: PT017 - either outcome is right; a refusal has to say why
