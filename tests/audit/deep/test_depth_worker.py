"""The worker's dialogue: requests in, answers out in the same order, whatever the payloads are."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.audit.deep.depth import _answers
from orbit.audit.deep.depth_worker import COMPRESSIONS, KINDS, REQUEST, Answer, answer, serve
from tests.writers.cubin import EMPTY, write_cubin

GUARDS = re.compile(b"without targeting")


def request(kind: str, compression: str, size: int, payload: bytes) -> bytes:
    return REQUEST.pack(KINDS.index(kind), COMPRESSIONS.index(compression), size, len(payload)) + payload


def talk(*requests: bytes) -> list[Answer]:
    out = io.BytesIO()
    serve(io.BytesIO(GUARDS.pattern + b"\n" + b"".join(requests)), out)
    return list(_answers(out.getvalue()))


def test_answers_come_in_order() -> None:
    first, second, third = talk(
        request("elf", "", 0, write_cubin({"k": EMPTY})),
        request("elf", "zstd", 10, b"junk"),
        request("ptx", "", 0, b".target sm_90\n.entry k()"),
    )
    assert (first.arch, [kernel.name for kernel in first.kernels]) == ("sm_90a", ["k"])
    assert second.problem.startswith("zstd data cannot be unpacked")
    assert (third.arch, [kernel.name for kernel in third.kernels]) == ("compute_90", ["k"])


def test_no_requests() -> None:
    assert talk() == []


def test_a_request_that_was_cut_short_ends_it() -> None:
    with pytest.raises(ValueError, match="cut short"):
        talk(request("elf", "", 0, b"whole payload")[:-1])


@given(st.sampled_from(KINDS), st.sampled_from(COMPRESSIONS), st.integers(0, 1 << 64), st.binary(max_size=200))
def test_any_payload_is_answered(kind: str, compression: str, size: int, payload: bytes) -> None:
    found = answer(kind, compression, size, payload, GUARDS)
    assert not (found.problem and found.kernels)
