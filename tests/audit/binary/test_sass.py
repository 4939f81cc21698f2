"""Which bodies do nothing. The instruction words are those of nvdisasm's listings."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.audit.binary.sass import MAX_STUB_BYTES, direct_calls, immediates, pointers, stub_of
from tests.writers.cubin import EMPTY, EXIT, LOAD_STACK, NOP, SELF, STORE, TRAP, TRAPS, code, prints, works

UNLESS = (0x000000000000094D, 0x000FEA0003800000)  # @P0 EXIT
TURING_STACK = (0x00000A0000017A02, 0x000FE20000000F00)  # MOV R1, c[0x0][0x28]
TURING_SELF = (0xFFFFFFF000007947, 0x000FC0000383FFFF)
FORWARD = (0x0000000000447947, 0x000FEA0003800000)
LOOP = (0xFFFFFFFC00C40947, 0x001FEA000383FFFF)  # @P0 BRA backwards
LOAD = (0x0000000402027981, 0x000EA2000C1E1900)  # LDG
UNKNOWN = (0x0000000000007FFF, 0)
CALL_DIRECT = (0x0000000000007944, 0x000FEA0003C00000)  # CALL.REL


def words(*instructions: tuple[int, int]) -> bytes:
    return b"".join(struct.pack("<QQ", *word) for word in instructions)


@pytest.mark.parametrize(
    ("body", "stub"),
    [
        (EMPTY, "empty"),
        (words(TURING_STACK, EXIT, TURING_SELF, NOP), "empty"),
        (words(LOAD_STACK, FORWARD, EXIT, SELF), "empty"),
        (words(LOAD_STACK, UNLESS, EXIT, SELF), "empty"),
        (TRAPS, "trap"),
        (words(LOAD_STACK, TRAP, EXIT), "trap"),
        (prints(0, 8), "message"),
        (prints(0, 8, then=(TRAP, EXIT)), "message"),
    ],
)
def test_stubs(body: bytes, stub: str) -> None:
    assert stub_of(body) == stub


@pytest.mark.parametrize(
    "body",
    [
        works(),
        code(LOAD_STACK, STORE, EXIT),
        code(LOAD_STACK, UNLESS, LOAD, EXIT),
        code(LOAD_STACK, LOOP, EXIT),
        code(LOAD_STACK, UNKNOWN, EXIT),
        code(LOAD_STACK, CALL_DIRECT, EXIT),
        code(LOAD_STACK, EXIT, size=MAX_STUB_BYTES + 256),
        words(LOAD_STACK, UNLESS, NOP),
        b"",
        EMPTY[:-1],
    ],
)
def test_whatever_may_do_something_works(body: bytes) -> None:
    assert stub_of(body) == ""


def test_where_texts_and_functions_come_from() -> None:
    assert (pointers(prints(0xF0, 0xF8)), immediates(prints(0xF0, 0xF8))) == ({0xF0}, {0xF8})
    turing = words((0x0100040000047A02, 0), (0x0100000000027B82, 0))  # MOV R4, c[0x4][0x10]; LDC.64 R2, c[0x4][R0]
    assert pointers(turing) == {0x10}
    assert pointers(works()) == immediates(works()) == set()


@given(st.binary(max_size=600))
def test_any_bytes_are_judged(body: bytes) -> None:
    assert stub_of(body) in ("", "empty", "trap", "message")
    assert all(offset >= 0 for offset in pointers(body) | immediates(body))


def test_calls_of_an_address_are_found() -> None:
    call = (0x0000000000007943, 0x001FEA0003C00000)  # CALL.ABS.NOINC of an address
    assert direct_calls(words(LOAD_STACK, call, EXIT)) == (16,)
    assert stub_of(words(LOAD_STACK, call, EXIT)) == "message"
    assert direct_calls(prints(0, 8)) == ()
