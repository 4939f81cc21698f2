"""Macros of a command line, of nvcc and of g++: what a build script switched on or off shows there and nowhere else."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

DEFINE = ("-D", "--define-macro")
UNDEFINE = ("-U", "--undefine-macro")
FOR_HOST = ("-Xcompiler", "--compiler-options")


def defines(arguments: Sequence[str]) -> list[str]:
    """The macros in force at the end of the line, sorted: ``NAME`` or ``NAME=value``, without those taken back.

    ``-D NAME``, ``-DNAME``, ``--define-macro=A,B`` (nvcc takes lists) and the same inside ``-Xcompiler``. As the
    compilers do it, ``-U`` wins over a ``-D`` before it only; macros that are defined by headers are not seen.
    """
    found: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        option, value = _option(word)
        if option and not value:
            value = next(words, "")
        if option in FOR_HOST:
            for inner in defines([part.strip("'\"") for part in value.split(",")]):
                found[inner.partition("=")[0]] = inner
        elif option in DEFINE:
            for macro in _list(value):
                found[macro.partition("=")[0]] = macro
        elif option in UNDEFINE:
            for macro in _list(value):
                found.pop(macro, None)
    return sorted(found.values())


def _option(word: str) -> tuple[str, str]:
    """(option, its value) where the word is one of ours; the value is empty when it is the next word."""
    for option in (*DEFINE, *UNDEFINE, *FOR_HOST):
        if word == option:
            return option, ""
        if option.startswith("--") or option in FOR_HOST:
            if word.startswith(f"{option}="):
                return option, word[len(option) + 1 :]
        elif word.startswith(option):
            return option, word[len(option) :].removeprefix("=")
    return "", ""


def _list(value: str) -> list[str]:
    """The macros of one value; a comma separates two only where a name follows it."""
    macros: list[str] = []
    for part in value.split(","):
        if macros and not part.partition("=")[0].isidentifier():
            macros[-1] += f",{part}"
        elif part:
            macros.append(part)
    return macros
