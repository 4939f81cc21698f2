"""What a package compiles at run time, taken out of the package itself.

Packages like DeepGEMM keep the text of each kernel's translation unit, the flags of the compiler and the format of the
cache's names as C strings with blanks (``{}``, doubled braces for literal ones: the format language of fmt, which is
Python's). A probe fills the blanks of such a text, so what is compiled here is the package's own source, and a release
that changed it is noticed.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from orbit.errors import CheckFailed, InputError
from orbit.kernels.recipe import JitUse, Probe

MAX_TEXT_BYTES = 1 << 16
FIX = "the package is another release than its recipe was written for: read its sources and correct kernels/recipes"


@dataclass(frozen=True, slots=True)
class Generator:
    """The file that holds the texts."""

    name: str
    """Path inside the wheel, for messages."""
    data: bytes

    def has(self, text: str) -> bool:
        """Whether ``text`` is a whole C string of the file."""
        return b"\0" + text.encode() + b"\0" in self.data

    def text_of(self, kernel: str) -> str:
        """The one text that takes the address of ``kernel<...>``. Raises :class:`CheckFailed` when there is not one."""
        found = set()
        pattern = re.compile(rb"&(?:\w+::)*" + re.escape(kernel.encode()) + rb"<")
        for match in pattern.finditer(self.data):
            start = self.data.rfind(b"\0", max(match.start() - MAX_TEXT_BYTES, 0), match.start()) + 1
            end = self.data.find(b"\0", match.end(), match.end() + MAX_TEXT_BYTES)
            if start and end > 0:
                found.add(self.data[start:end])
        if len(found) != 1:
            raise CheckFailed(f"{self.name}: {len(found)} texts of the kernel {kernel}, one is expected", fix=FIX)
        return found.pop().decode("utf-8", "backslashreplace")


def source_of(probe: Probe, generator: Generator, folder: Path) -> bytes:
    """The translation unit of a probe: the package's text with its blanks filled, or our own file in ``folder``.

    Raises :class:`CheckFailed` when the package's text has another number of blanks than the probe has arguments.
    """
    if probe.source:
        return (folder / probe.source).read_bytes()
    text = generator.text_of(probe.kernel)
    blanks = text.replace("{{", "").replace("}}", "").count("{}")
    if blanks != len(probe.arguments):
        raise CheckFailed(
            f"{generator.name}: the text of {probe.kernel} has {blanks} blanks, the probe fills {len(probe.arguments)}",
            fix=FIX,
        )
    try:
        return text.format(*probe.arguments).encode()
    except (ValueError, IndexError, KeyError) as error:
        raise CheckFailed(f"{generator.name}: the text of {probe.kernel} is no format: {error}", fix=FIX) from None


def missing_texts(use: JitUse, generator: Generator) -> tuple[str, ...]:
    """Texts of the recipe (flags and cache key) that the package does not have."""
    return tuple(text for text in (*use.flags, *use.cache_key) if not generator.has(text))


def flags_for(use: JitUse, *, include: str, arch: str) -> tuple[str, ...]:
    """The compiler's arguments as the package forms them for one architecture (``sm_90a``).

    Raises :class:`InputError` for a value that names nothing.
    """
    known = {"{include}": include, "{number}": arch.removeprefix("sm_")}
    values = list(use.values)
    made = ""
    for text in use.flags:
        parts = text.split("{}")
        filled = parts[0]
        for part in parts[1:]:
            value = values.pop(0)
            if value.startswith("{") and value not in (*known, "{flags}"):
                raise InputError(f"jit: values: {value} names nothing", fix="{flags}, {include}, {number} or a text")
            filled += (made if value == "{flags}" else known.get(value, value)) + part
        made = filled
    return tuple(made.split())


def digest(data: bytes) -> str:
    """sha256, hexadecimal."""
    return hashlib.sha256(data).hexdigest()
