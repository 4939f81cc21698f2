"""A writer of cubins: real symbol tables, notes and pointer banks around real instructions of sm_90 and sm_100."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from tests.writers.fatbin import Entry

LOAD_STACK = (0x00000A00FF017B82, 0x000FF00000000800)  # LDC R1, c[0x0][0x28]
EXIT = (0x000000000000794D, 0x000FEA0003800000)
SELF = (0xFFFFFFFC00FC7947, 0x000FC0000383FFFF)  # BRA to itself
NOP = (0x0000000000007918, 0x000FC00000000000)
TRAP = (0x000000040000795C, 0x000FEA0000300000)  # BPT.TRAP 0x1
STORE = (0x0000000502007986, 0x000FE2000C101904)  # STG.E desc[UR4][R2.64], R5
LEPC = (0x000000001014794E, 0x000FCE0000000000)
LOAD_FUNCTION = (0x0100000000027B82, 0x0002A20000000A00)  # LDC.64 R2, c[0x4][R0]
CALL = (0x0000000002007343, 0x009FEA0003C00000)  # CALL.ABS.NOINC R2
HELPER = "_Z6helperv"
SHT_SYMTAB, SHT_STRTAB, SHT_RELA, SHT_NOTE = 2, 3, 4, 7


def code(*instructions: tuple[int, int], size: int = 256) -> bytes:
    """Instructions, then the branch to itself and the NOPs that ptxas fills a kernel up with."""
    words = [*instructions, SELF]
    words += [NOP] * (size // 16 - len(words))
    return b"".join(struct.pack("<QQ", *word) for word in words)


EMPTY = code(LOAD_STACK, EXIT)
TRAPS = code(LOAD_STACK, TRAP)


def works(size: int = 2048) -> bytes:
    """A body that stores something."""
    return code(LOAD_STACK, *[STORE] * (size // 16 - 3), EXIT, size=size)


def prints(text_at: int, function_at: int, *, then: Sequence[tuple[int, int]] = (EXIT,)) -> bytes:
    """A body that hands the text at one place of the pointer bank to the function at the other: ``MOV R0, function;
    LDCU.64 UR4, c[0x4][text]; LDC.64 R2, c[0x4][R0]``, then a call of R2."""
    text = (0x01 << 56 | (text_at // 8) << 40 | 0xFF0477AC, 0x000E620008000A00)
    return code(LOAD_STACK, _move(function_at), text, LOAD_FUNCTION, LEPC, CALL, *then, size=384)


def _move(value: int) -> tuple[int, int]:
    return value << 32 | 0x7802, 0x000FE20000000F00  # MOV R0, value


@dataclass(frozen=True)
class Says:
    """A kernel that prints a text (or asserts it) and ends, or goes on to work."""

    text: str
    function: str = "vprintf"
    works: bool = False


@dataclass(frozen=True)
class Calls:
    """A kernel that calls a device function through a pointer, which may do anything; ``prints`` it does before."""

    prints: bool = False


type Body = bytes | Says | Calls


class _Names:
    def __init__(self) -> None:
        self.data = b"\0"

    def add(self, text: str) -> int:
        at = len(self.data)
        self.data += text.encode("utf-8", "surrogateescape") + b"\0"
        return at


def write_cubin(
    kernels: dict[str, Body], *, arch: str = "sm_90a", abi: int = 8, note: bool = True, functions: Sequence[str] = ()
) -> bytes:
    """A cubin of ``kernels`` (by mangled name) and device ``functions``; ``arch`` goes where ``abi`` keeps it."""
    titles, names = _Names(), _Names()
    parts: list[tuple[str, int, int, int, bytes]] = []  # title, type, link, info, content
    symbols = [struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)]
    texts, bank = b"", []
    first = 4  # sections before the kernels': null, names of sections, names of symbols, symbols
    constant = first + len(kernels) + len(functions)
    for position, (name, body) in enumerate(kernels.items()):
        if not isinstance(body, bytes):
            place = 24 * position
            calls = isinstance(body, Calls)
            function = body.function if isinstance(body, Says) else "vprintf" if body.prints else HELPER
            bank += [(place, _symbol(symbols, names, f"$str${position}", 1, 0, constant + 1, len(texts)))]
            bank += [(place + 8, _symbol(symbols, names, function, 0x12, 0, 0, 0))]
            bank += [(place + 16, _symbol(symbols, names, HELPER, 0x12, 0, 0, 0))] if calls else []
            texts += (body.text if isinstance(body, Says) else "text").encode() + b"\0"
            go_on = (STORE, EXIT) if isinstance(body, Says) and body.works else (EXIT,)
            then = (_move(place + 16), LOAD_FUNCTION, LEPC, CALL, EXIT) if calls else go_on
            body = prints(place, place + 8, then=then)
        parts.append((f".text.{name}", 1, 3, 0, body))
        _symbol(symbols, names, name, 0x12, 0x10, first + position, 0, len(body))
    for position, name in enumerate(functions):
        parts.append((f".text.{name}", 1, 3, 0, works(256)))
        _symbol(symbols, names, name, 0x12, 0, first + len(kernels) + position, 0, 256)
    rela = b"".join(struct.pack("<QIIq", offset, 2, symbol, 0) for offset, symbol in bank)
    parts.append((".nv.constant4", 1, 0, 0, bytes(8 * len(bank))))
    parts.append((".nv.global.init", 1, 0, 0, texts))
    parts.append((".rela.nv.constant4", SHT_RELA, 3, constant, rela))
    if note:
        options = f"ptxas\0Cuda compilation tools, release 13.0, V13.0.88\0-arch {arch} -m 64 \0"
        parts.append((".note.nv.tkinfo", SHT_NOTE, 0, 0, b"NVIDIA Corp\0" + options.encode()))
    head = [
        (".strtab", SHT_STRTAB, 0, 0, names.data),
        (".symtab", SHT_SYMTAB, 2, 0, b"".join(symbols)),
    ]
    return _assemble(titles, [*head, *parts], _flags(arch, abi), abi)


def _symbol(
    symbols: list[bytes], names: _Names, name: str, info: int, other: int, section: int, value: int, size: int = 0
) -> int:
    symbols.append(struct.pack("<IBBHQQ", names.add(name), info, other, section, value, size))
    return len(symbols) - 1


def _flags(arch: str, abi: int) -> int:
    number = int(arch.removeprefix("sm_").rstrip("af"))
    if abi < 8:
        return number << 16 | 0x500 | number | (0x800 if arch.endswith("a") else 0)
    return 0x6000002 | number << 8


def _assemble(titles: _Names, parts: list[tuple[str, int, int, int, bytes]], flags: int, abi: int) -> bytes:
    titles_at = [titles.add(title) for title in (".shstrtab", *(part[0] for part in parts))]
    sections = [(".shstrtab", SHT_STRTAB, 0, 0, titles.data), *parts]
    body, headers = b"", bytes(64)
    for at, (_title, kind, link, info, content) in zip(titles_at, sections, strict=True):
        body += bytes(-len(body) % 16)
        headers += struct.pack("<IIQQQQIIQQ", at, kind, 0, 0, 64 + len(body), len(content), link, info, 8, 0)
        body += content
    body += bytes(-len(body) % 8)
    ident = bytes([0x7F, 0x45, 0x4C, 0x46, 2, 1, 1, 0x41 if abi >= 8 else 0x33, abi]).ljust(16, b"\0")
    count = len(sections) + 1
    header = struct.pack("<16sHHIQQQIHHHHHH", ident, 2, 190, 1, 0, 0, 64 + len(body), flags, 64, 56, 0, 64, count, 1)
    return header + body + headers


def cubin_entry(arch: str, kernels: dict[str, Body], **parts: object) -> Entry:
    """An image of ``arch`` with a real cubin in it."""
    return Entry(arch, payload=write_cubin(kernels, arch=arch, **parts))  # type: ignore[arg-type]
