"""As much of NVIDIA's machine code as is needed to see that a kernel does nothing.

From Volta on an instruction is 16 bytes: the low 12 bits are the operation (9 bits) and the form of its operands (3
bits), bits 12-15 the predicate (7: always). The operations below were read off nvdisasm's listing of 3.1 million
instructions of sm_75 to sm_120 (``tests/audit/deep/test_depth_real.py`` repeats the comparison on the locked stack).
What is not listed here is taken for work, so an operation nobody knew can hide a stub but never invent one.
"""

from __future__ import annotations

import struct
from typing import Literal

type Stub = Literal["", "empty", "trap", "message"]
"""Why a kernel does nothing: compiled away; stops the device; prints or asserts something and ends. Empty: it works."""

INSTRUCTION = struct.Struct("<QQ")
MAX_STUB_BYTES = 4096
"""A body larger than this is taken for work without a look at it."""

PURE = {
    0x002: "MOV", 0x003: "P2R", 0x004: "R2P", 0x005: "CS2R", 0x006: "VOTE", 0x007: "SEL", 0x008: "FSEL",
    0x00B: "FSETP", 0x00C: "ISETP", 0x010: "IADD3", 0x011: "LEA", 0x012: "LOP3", 0x013: "IABS", 0x016: "PRMT",
    0x017: "IMNMX", 0x019: "SHF", 0x01A: "SGXT", 0x01B: "BMSK", 0x01C: "PLOP3", 0x020: "FMUL", 0x021: "FADD",
    0x023: "FFMA", 0x024: "IMAD", 0x025: "IMAD", 0x026: "IDP", 0x027: "IMAD", 0x031: "HFMA2",
    0x035: "HFMA2 IADD", 0x036: "VIADD",
    0x045: "I2FP", 0x046: "VIADDMNMX", 0x048: "VIMNMX", 0x082: "UMOV", 0x083: "UP2UR", 0x085: "UIMNMX", 0x086: "VOTEU",
    0x087: "USEL", 0x08C: "UISETP", 0x090: "UIADD3", 0x091: "ULEA", 0x092: "ULOP3", 0x096: "UPRMT", 0x097: "UIADD3",
    0x099: "USHF", 0x09B: "UBMSK", 0x09C: "UPLOP3", 0x0A4: "UIMAD", 0x0A5: "UIMAD", 0x0A6: "UIMAD", 0x0B9: "ULDC",
    0x0BB: "ULDC", 0x0CA: "R2UR", 0x02D: "PREEXIT", 0x02E: "ACQBULK", 0x02F: "ELECT", 0x100: "FLO", 0x101: "BREV",
    0x104: "F2F", 0x105: "F2I", 0x106: "I2F", 0x108: "MUFU", 0x109: "POPC", 0x118: "NOP", 0x119: "S2R", 0x11A: "DEPBAR",
    0x141: "BSYNC", 0x142: "BREAK", 0x145: "BSSY", 0x146: "YIELD", 0x148: "WARPSYNC", 0x14D: "EXIT", 0x14E: "LEPC",
    0x155: "BMOV", 0x156: "BMOV", 0x182: "LDC", 0x183: "LDL", 0x187: "STL", 0x1AC: "LDCU", 0x1C2: "R2UR",
    0x1C3: "S2UR",
}  # fmt: skip
"""Operations (low 9 bits) that change registers, the thread's own stack or the order of execution and nothing else; one
number had two meanings in the course of time."""
BRA, CALL, BPT = 0x147, 0x143, 0x15C
CALL_FORMS = CALL_DIRECT, CALL_REGISTER = (0x943, 0x343)
"""CALL.ABS to an address, or to what is in a register."""
SELF = (0xFFFFFFF000007947, 0xFFFFFFFC00FC7947)
"""A branch to itself (to sm_89, from sm_90 on): what stands behind the last EXIT, or behind a trap."""
CONSTANT_FORMS = (0xB82, 0xAB9, 0xABB, 0x7AC, 0xA02, 0xA24, 0x624)
"""Operation and form of LDC, ULDC, LDCU, MOV and IMAD with an operand in a constant bank."""
LDCU, MOV_IMMEDIATE = 0x7AC, 0x802
INDEXED_FORMS, NO_INDEX = (0xB82, 0x7AC), 0xFF
"""LDC and LDCU may add a register to the place."""
POINTER_BANK = 4
"""The constant bank in which the linker puts addresses of functions and of strings."""


def stub_of(code: bytes) -> Stub:
    """Whether ``code`` (all instructions of one kernel) does anything that can be seen from outside.

    A kernel with a loop, a load, a store, a barrier or a relative call is taken for one that works. Absolute calls are
    how printf and assert are called: ``message``, to be confirmed with the names of what is called.
    """
    if len(code) > MAX_STUB_BYTES or len(code) % INSTRUCTION.size or not code:
        return ""
    calls = traps = False
    ended = False
    for low, _high in INSTRUCTION.iter_unpack(code):
        operation = low & 0x1FF
        if low & 0xFFF in CALL_FORMS:
            calls = True
        elif operation == BPT:
            traps = True
        elif operation == BRA:
            if low >> 63 and low not in SELF:
                return ""  # backwards: a loop
        elif operation not in PURE:
            return ""
        ended = ended or (operation == 0x14D and low >> 12 & 15 == 7)
    if not (ended or traps):
        return ""  # runs into what follows
    return "message" if calls else "trap" if traps else "empty"


def pointers(code: bytes) -> frozenset[int]:
    """Places in the pointer bank that instructions of ``code`` have as an operand: where texts come from."""
    found = set()
    for low, _high in INSTRUCTION.iter_unpack(code[: len(code) // INSTRUCTION.size * INSTRUCTION.size]):
        form = low & 0xFFF
        if form not in CONSTANT_FORMS or low >> 54 & 0x1F != POINTER_BANK:
            continue
        if form not in INDEXED_FORMS or low >> 24 & 0xFF == NO_INDEX:
            found.add((low >> 40 & 0x3FFF) * (8 if form == LDCU else 4))
    return frozenset(found)


def immediates(code: bytes) -> frozenset[int]:
    """Constants moved to a register: functions are loaded from the pointer bank at such an index."""
    return frozenset(
        low >> 32
        for low, _high in INSTRUCTION.iter_unpack(code[: len(code) // INSTRUCTION.size * INSTRUCTION.size])
        if low & 0xFFF == MOV_IMMEDIATE
    )


def direct_calls(code: bytes) -> tuple[int, ...]:
    """Where in ``code`` an address is called: the linker or the driver puts it in."""
    words = INSTRUCTION.iter_unpack(code[: len(code) // INSTRUCTION.size * INSTRUCTION.size])
    return tuple(number * INSTRUCTION.size for number, (low, _high) in enumerate(words) if low & 0xFFF == CALL_DIRECT)
