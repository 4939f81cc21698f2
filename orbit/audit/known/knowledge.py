"""What is known of libraries whatever profile is used: ``kernels/expectations/{libraries,symbols}.toml``.

The two files are data about the world (which libraries must be there once, what opens what by name, which symbols
belong to whom), not about one environment, so nothing in them can go stale with a lock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import translate
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

from orbit.core.findings import Severity
from orbit.core.paths import data_file
from orbit.core.records import Record, load_toml
from orbit.errors import InputError

type Form = Literal["decimal", "bytes", "parts"]
"""How a number is a release: ``decimal`` 22809 is 2.28.9, ``bytes`` 0x091300 is 9.19.0; ``parts``: one number each."""


HASH = re.compile(r"[-.][0-9a-f]{8}(?=[.-])")


class Mark(Record, frozen=True, kw_only=True):
    """A symbol whose value, or whose code, states the release."""

    name: str
    form: Form


class Family(Record, frozen=True, kw_only=True):
    """Copies of one library."""

    name: str
    sonames: tuple[str, ...]
    """Shell patterns over DT_SONAME and the file's name, the hash of a private copy left out (:func:`plain_name`)."""
    members: tuple[str, ...] = ()
    """Further libraries of the same product, which must come from the same folder."""
    dists: tuple[str, ...] = ()
    """Distributions that bring it (shell patterns)."""
    mixed: Severity
    """What two different releases of one soname weigh when a process can reach both."""
    copies: Severity | None = None
    """What two copies of one release weigh; None: nothing."""
    texts: tuple[str, ...] = ()
    """Regular expressions over bytes that start with plain text; their groups joined by dots are the release."""
    codes: tuple[str, ...] = ()
    """Regular expressions over machine code whose group is a little-endian number such as 13000."""
    objects: tuple[Mark, ...] = ()
    """Exported data."""
    functions: tuple[Mark, ...] = ()
    """Exported functions that store constants into what their arguments point to."""
    versions: str = ""
    """The release is the highest version that the file defines with this prefix."""
    embedded_in: tuple[str, ...] = ()
    """Files (shell patterns over the name) that may have a part of it linked in."""
    embedded_needs: tuple[str, ...] = ()
    """A file that needs one of these may have it linked in as well."""
    embedded_objects: tuple[str, ...] = ()
    """Local symbols of the linked part: three integers that state its release."""
    reason: str
    fix: str = ""
    """What to do about several copies; made from their paths when empty."""

    def has(self, name: str, soname: str) -> bool:
        """Whether a file of this name and soname is a copy (not a mere member) of the library."""
        matches = matcher(self.sonames)
        return matches(plain_name(name)) or (soname != "" and matches(plain_name(soname)))

    def has_member(self, name: str, soname: str) -> bool:
        """Whether it is a member of the product other than the library itself."""
        matches = matcher(self.members)
        return matches(plain_name(name)) or (soname != "" and matches(plain_name(soname)))


class Companion(Record, frozen=True, kw_only=True):
    """Libraries that ``user`` opens by name."""

    user: str
    """Shell pattern over soname or name."""
    wants: tuple[str, ...]
    """Sonames; ``{release2}`` stands for the first two numbers of the user's release. All are wanted."""
    severity: Severity
    effect: str
    """What happens without them."""


class Plugin(Record, frozen=True, kw_only=True):
    """An environment variable that names libraries to open."""

    variable: str
    wants: tuple[str, ...] = ()
    """Names that are tried after the value itself; one is enough. ``{value}`` is the variable's value."""
    split: bool = False
    """The value is a list, separated by colons and spaces."""
    exempt: tuple[str, ...] = ()
    """Values that name nothing."""
    effect: str


class DriverFiles(Record, frozen=True, kw_only=True):
    """Libraries that come with the GPU driver of the host, by name."""

    files: tuple[str, ...]
    others: tuple[str, ...]
    """Names that look like it and are not."""
    stub_folders: tuple[str, ...]
    """Folders whose libraries serve linkers only."""
    compat_folders: tuple[str, ...]
    """Folders of NVIDIA's forward-compatibility package."""

    def has(self, name: str) -> bool:
        """Whether a file of this name is the driver's."""
        plain = plain_name(name)
        return matcher(self.files)(plain) and not matcher(self.others)(plain)


class Brought(Record, frozen=True, kw_only=True):
    """Who brings a library to an environment in which a wheel is installed."""

    sonames: tuple[str, ...]
    dist: str


class Libraries(Record, frozen=True, kw_only=True):
    """``libraries.toml``."""

    schema: int
    families: tuple[Family, ...]
    companions: tuple[Companion, ...]
    plugins: tuple[Plugin, ...]
    majors: dict[str, tuple[str, ...]]
    """Sonames of one CUDA major alone, by major."""
    driver: DriverFiles
    brought: tuple[Brought, ...]

    def family_of(self, name: str, soname: str) -> Family | None:
        """The family that a file is a copy or a member of."""
        everything = tuple(pattern for family in self.families for pattern in (*family.sonames, *family.members))
        if not any(map(matcher(everything), (plain_name(name), plain_name(soname)))):
            return None
        found = (family for family in self.families if family.has(name, soname) or family.has_member(name, soname))
        return next(found, None)


class SymbolFamily(Record, frozen=True, kw_only=True):
    """Symbols without versions that one product alone defines."""

    name: str
    symbols: tuple[str, ...]
    """Regular expressions, matched at the start of the symbol's name."""
    libraries: tuple[str, ...]
    """Shell patterns over soname and name of the libraries that define them."""
    dist: str
    """Shell pattern over the distribution that brings these libraries."""
    cxx11_probe: str = ""
    """A library of these whose exports show which ABI of std::string it was built with."""


class Symbols(Record, frozen=True, kw_only=True):
    """``symbols.toml``."""

    schema: int
    families: tuple[SymbolFamily, ...]


def plain_name(name: str) -> str:
    """A library's name without the hash that auditwheel gives to a private copy: ``libgomp.so.1.0.0``."""
    return HASH.sub("", name)


class Matcher:
    """Matches names against several shell patterns at once."""

    __slots__ = ("_match",)

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._match = re.compile("|".join(translate(pattern) for pattern in patterns) or r"(?!)").match

    def __call__(self, name: str) -> bool:
        """Whether one of the patterns matches the whole name."""
        return self._match(name) is not None


@cache
def matcher(patterns: tuple[str, ...]) -> Matcher:
    """The matcher of ``patterns``, made once."""
    return Matcher(patterns)


@cache
def libraries() -> Libraries:
    """What is known of libraries. Raises :class:`InputError` naming file and key."""
    return load_libraries(data_file("kernels", "expectations", "libraries.toml"))


@cache
def symbols() -> Symbols:
    """What is known of symbols. Raises :class:`InputError` naming file and key."""
    return load_symbols(data_file("kernels", "expectations", "symbols.toml"))


@lru_cache(maxsize=1 << 17)
def symbol_family(name: str) -> str:
    """The name of the family that a symbol without version belongs to, or empty."""
    match = _symbol_pattern().match(name)
    return symbols().families[int((match.lastgroup or "f0")[1:])].name if match else ""


@cache
def _symbol_pattern() -> re.Pattern[str]:
    parts = (f"(?P<f{at}>{'|'.join(family.symbols)})" for at, family in enumerate(symbols().families))
    return re.compile("|".join(parts))


def load_libraries(path: Path) -> Libraries:
    """Read and check ``libraries.toml``."""
    found = load_toml(path, Libraries)
    _check_schema(path, found.schema)
    _check_names(path, [family.name for family in found.families])
    for family in found.families:
        for pattern in (*family.texts, *family.codes):
            _check_pattern(path, family.name, pattern.encode("latin-1"))
        for text in family.texts:
            if len(anchor(text.encode("latin-1"))) < MIN_ANCHOR:
                raise InputError(
                    f"{path}: families {family.name}: {text!r}", fix="start it with plain text to look for"
                )
    return found


def load_symbols(path: Path) -> Symbols:
    """Read and check ``symbols.toml``."""
    found = load_toml(path, Symbols)
    _check_schema(path, found.schema)
    _check_names(path, [family.name for family in found.families])
    for family in found.families:
        for pattern in family.symbols:
            _check_pattern(path, family.name, pattern)
    return found


MIN_ANCHOR = 8
ANCHOR = re.compile(rb"(?:[^\\()\[\].?*+{}|^$]|\\\.)+")


def anchor(pattern: bytes) -> bytes:
    """The plain text that a pattern starts with: what is searched for before the pattern is tried."""
    match = ANCHOR.match(pattern)
    if match is None:
        return b""
    text = match[0]
    if pattern[match.end() : match.end() + 1] in (b"?", b"*", b"{"):
        text = text[:-1]
    return text.replace(b"\\.", b".")


def major_of(soname: str, majors: Mapping[str, Iterable[str]]) -> str:
    """The CUDA major that a soname belongs to alone, or empty."""
    return next((major for major, names in majors.items() if soname in names), "")


def _check_schema(path: Path, schema: int) -> None:
    if schema != 1:
        raise InputError(f"{path}: schema {schema}, this version reads schema 1", fix="use the file of this checkout")


def _check_names(path: Path, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{path}: families {name} is declared twice", fix="keep one [[families]] table")


def _check_pattern(path: Path, name: str, pattern: str | bytes) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise InputError(f"{path}: families {name}: {pattern!r}: {error}", fix="correct the expression") from None
