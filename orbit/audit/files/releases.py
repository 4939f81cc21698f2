"""Which release a library is, by what its own bytes say.

The marks are data (``kernels/expectations/libraries.toml``): text in ``.rodata``, the name of the debug file, exported
version objects, functions that store constants, version definitions, and the number in the file's own name. Only files
whose name or soname is in that list are looked into, and at most :data:`MAX_SEARCH_BYTES` of each.

For readers of streams, which cannot look back: :func:`wanted_patterns` gives, for a file of a name, the expressions
that :func:`release_from` makes a release of. Every expression starts with plain text (``knowledge.anchor``), so it can
be searched for as the bytes pass; a match is never longer than :data:`MAX_MATCH_BYTES`. Where the sections of a stream
were kept, :func:`read_release` works on them as on a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from orbit.audit.binary.dynamic import Dynamic, Names, find_exports, read_symbol
from orbit.audit.binary.elf import Elf, MalformedElf, Section
from orbit.audit.known.knowledge import Family, Form, Mark, anchor, libraries, matcher

MAX_SEARCH_BYTES = 32 << 20
"""No section is searched further than this."""
MAX_MATCH_BYTES = 128
BLOCK_BYTES = 1 << 20
SECTIONS = (".rodata", ".gnu_debuglink", ".comment")
"""Where the texts are."""
CODE_BYTES = 64
"""How much of a function is looked at."""
STORE = re.compile(rb"\xc7[\x00-\x07](....)", re.DOTALL)
"""``movl $number, (register)``: how a function stores a constant through its argument (x86-64)."""
RETURN = b"\xc3"
NAMED = re.compile(r"\.so\.(\d+\.\d+(?:\.\d+)*)$")
"""A file that has its release in its name, as installed by a system's packages: ``libcudart.so.12.8.90``."""
VERSION = re.compile(r"^([A-Z][A-Z0-9]*)_(\d+(?:\.\d+)*)$")
SYMTAB = 2
SYMBOL_BYTES = 24


def wanted_patterns(name: str) -> tuple[re.Pattern[bytes], ...]:
    """Expressions worth searching for in a file of this name while it passes; none for most files."""
    found = []
    for family in libraries().families:
        if family.has(name, "") or family.has_member(name, "") or matcher(family.embedded_in)(name):
            found += [compiled(text) for text in family.texts]
    return tuple(found)


def release_from(name: str, found: Iterable[bytes]) -> str:
    """The release that texts found by :func:`wanted_patterns` state for a library of this name; empty for none."""
    family = libraries().family_of(name, "")
    return _first_text(family, found) if family is not None else ""


def embedded_from(name: str, found: Iterable[bytes]) -> tuple[tuple[str, str], ...]:
    """(family, release) of what is linked into a file of this name, by the texts found in it."""
    found = tuple(found)
    stated = [
        (family.name, _first_text(family, found))
        for family in libraries().families
        if matcher(family.embedded_in)(name) and not family.has(name, "")
    ]
    return tuple((family, release) for family, release in stated if release)


def read_release(elf: Elf, path: str, dynamic: Dynamic | None) -> str:
    """The release of the library in ``elf``; empty when it is not in the list or does not say.

    Raises :class:`orbit.audit.binary.elf.MalformedElf` for a damaged file.
    """
    name = path.rpartition("/")[2]
    family = libraries().family_of(name, dynamic.soname if dynamic else "")
    if family is None or dynamic is None:
        return ""
    if family.versions:
        return highest(dynamic.defines, family.versions)
    return (
        _by_text(elf, family.texts)
        or _by_symbols(elf, family.objects, family.functions)
        or _by_code(elf, family, dynamic.soname or name)
        or _by_name(name)
    )


def read_embedded(elf: Elf, path: str, dynamic: Dynamic | None) -> tuple[tuple[str, str], ...]:
    """(family, release) of libraries that are linked into ``elf`` in part: NVSHMEM's device library in a kernel."""
    name = path.rpartition("/")[2]
    needed = dynamic.needed if dynamic else ()
    found = []
    for family in libraries().families:
        if family.embedded_objects and not family.has(name, dynamic.soname if dynamic else ""):
            needs = matcher(family.embedded_needs)
            if matcher(family.embedded_in)(name) or any(needs(soname) for soname in needed):
                release = _by_text(elf, family.texts) or _by_local_object(elf, family.embedded_objects)
                if release:
                    found.append((family.name, release))
    return tuple(found)


def highest(versions: Iterable[str], prefix: str) -> str:
    """The highest of ``versions`` with this prefix, without it: ``3.4.30`` of ``GLIBCXX_3.4.30``."""
    found = [match[2] for text in versions if (match := VERSION.match(text)) and match[1] == prefix]
    return max(found, key=number, default="")


def number(release: str) -> tuple[int, ...]:
    """A release as numbers that compare: ``(2, 28, 9)``."""
    return tuple(int(part) for part in re.findall(r"\d{1,18}", release))


@cache
def compiled(pattern: str) -> re.Pattern[bytes]:
    """An expression of the data file over bytes."""
    return re.compile(pattern.encode("latin-1"), re.DOTALL)


def _first_text(family: Family, found: Iterable[bytes]) -> str:
    found = tuple(found)
    for text in family.texts:
        for piece in found:
            if (match := compiled(text).match(piece)) is not None:
                return _joined(match)
    return ""


def _joined(match: re.Match[bytes]) -> str:
    return ".".join(group.decode("ascii", "replace") for group in match.groups() if group is not None)


def _by_text(elf: Elf, texts: tuple[str, ...]) -> str:
    """The first text of the list that the searched sections hold."""
    if not texts:
        return ""
    sections = [section for section in elf.sections() if section.name in SECTIONS]
    for text in texts:
        pattern = compiled(text)
        start = anchor(text.encode("latin-1"))
        for section in sections:
            if (match := _search(elf, section, start, pattern)) is not None:
                return _joined(match)
    return ""


def _search(elf: Elf, section: Section, start: bytes, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
    """``pattern`` in a section, looked for in blocks that overlap by the longest match."""
    end = section.offset + min(section.size, MAX_SEARCH_BYTES)
    searched = getattr(elf.data, "searched", None)  # of a stream only what is looked for was kept
    for at in range(section.offset, end, BLOCK_BYTES):
        stop = min(at + BLOCK_BYTES + MAX_MATCH_BYTES, end)
        block: bytes = searched(at, stop, start) if searched else elf.data[at:stop]
        where = block.find(start)
        while where >= 0:
            if (match := pattern.match(block, where)) is not None:
                return match
            where = block.find(start, where + 1)
    return None


def _by_symbols(elf: Elf, objects: tuple[Mark, ...], functions: tuple[Mark, ...]) -> str:
    """What exported version objects hold, or version functions store."""
    marks = {mark.name: mark for mark in (*objects, *functions)}
    if not marks:
        return ""
    for name, index in find_exports(elf, Names(marks)).items():
        mark = marks[name]
        try:
            if mark in objects:
                release = _spelled([int.from_bytes(read_symbol(elf, index, 4), "little")], mark.form)
            else:
                release = _spelled(list(_stored(read_symbol(elf, index, CODE_BYTES))), mark.form)
        except MalformedElf:
            continue  # a function shorter than what is looked at, at the end of its segment
        if release:
            return release
    return ""


def _stored(code: bytes) -> Iterator[int]:
    """Numbers that a function stores before it returns."""
    at = 0
    numbers: list[int] = []
    while (match := STORE.search(code, at)) is not None:
        stop = code.find(RETURN, at, match.start())
        if numbers and stop >= 0:
            break
        numbers.append(int.from_bytes(match[1], "little"))
        at = match.end()
    return iter(numbers)


def _spelled(numbers: list[int], form: Form) -> str:
    """Numbers as a release; empty when they cannot be one."""
    if not numbers or not 0 < numbers[0] < 1 << 24:
        return ""
    if form == "parts":
        return ".".join(map(str, numbers)) if all(value < 1000 for value in numbers) else ""
    value = numbers[0]
    if form == "bytes":
        return f"{value >> 16}.{value >> 8 & 255}.{value & 255}"
    thousand = 10_000 if value >= 10_000 else 1000
    return f"{value // thousand}.{value % thousand // 100}.{value % 100}"


def _by_code(elf: Elf, family: Family, soname: str) -> str:
    """A number such as 13000 in the code, of the major that the soname has: 13.0."""
    major = re.search(r"\.so\.(\d+)", soname)
    if not family.codes or major is None or elf.size > MAX_SEARCH_BYTES:
        return ""
    found = set()
    for section in elf.sections():
        if section.name == ".text":
            code = elf.data[section.offset : section.offset + section.size]
            for pattern in family.codes:
                found |= {int.from_bytes(match[1], "little") for match in compiled(pattern).finditer(code)}
    releases = {value for value in found if value // 1000 == int(major[1]) and value % 10 == 0}
    return f"{major[1]}.{releases.pop() % 1000 // 10}" if len(releases) == 1 else ""


def _by_name(name: str) -> str:
    match = NAMED.search(name)
    return match[1] if match else ""


def _by_local_object(elf: Elf, names: tuple[str, ...]) -> str:
    """Three integers at a local symbol, for files that still have their symbol table."""
    sections = elf.sections()
    for section in sections:
        if section.kind != SYMTAB or section.link >= len(sections) or section.size > MAX_SEARCH_BYTES:
            continue
        strings = sections[section.link]
        texts = elf.data[strings.offset : strings.offset + min(strings.size, MAX_SEARCH_BYTES)]
        table = elf.data[section.offset : section.offset + section.size]
        for name in names:
            where = texts.find(b"\0" + name.encode() + b"\0") + 1
            at = _row(table, where) if where else -1
            release = _at_symbol(elf, sections, table[at : at + SYMBOL_BYTES]) if at >= 0 else ""
            if release:
                return release
    return ""


def _at_symbol(elf: Elf, sections: tuple[Section, ...], symbol: bytes) -> str:
    """The release that three integers at a symbol spell."""
    index, value = int.from_bytes(symbol[6:8], "little"), int.from_bytes(symbol[8:16], "little")
    if not 0 < index < len(sections) or not sections[index].size:
        return ""
    offset = value - sections[index].address + sections[index].offset
    if not 0 <= offset <= elf.size - 12:
        return ""
    raw = elf.data[offset : offset + 12]
    return _spelled([int.from_bytes(raw[at : at + 4], "little") for at in (0, 4, 8)], "parts")


def _row(table: bytes, name: int) -> int:
    """Where the symbol whose name is at ``name`` of the string table stands in a symbol table, or -1."""
    wanted = name.to_bytes(4, "little")
    at = table.find(wanted)
    while at >= 0 and at % SYMBOL_BYTES:
        at = table.find(wanted, at + 1)
    return at
