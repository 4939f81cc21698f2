"""Command lines of gcc and g++: which compile one unit to an object, and what such a call reads and writes.

Flags as documented by GCC 12's manual, "Overall Options", "Preprocessor Options" and "Directory Options".
"""

from __future__ import annotations

import os

from .arguments import option_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SUFFIXES = (".c", ".cc", ".cpp", ".cxx", ".c++", ".C", ".cp", ".CPP")
LANGUAGES = ("c", "c++")
NO_OBJECT = frozenset(("-E", "-S", "-M", "-MM", "-fsyntax-only", "-###", "--version", "--help", "-dumpversion"))
"""With one of these no object comes out."""
VALUES = """
-o -x -I -isystem -iquote -idirafter -include -imacros -iprefix -isysroot -iwithprefix -iwithprefixbefore -imultilib
-D -U -L -l -MF -MT -MQ -Xlinker -Xassembler -Xpreprocessor -T -u -z -e -h -A -B -aux-info -dumpbase -dumpbase-ext
-dumpdir --param -wrapper -specs --sysroot -arch -G
"""
WITH_VALUE = frozenset(VALUES.split())
"""Flags whose value may be the next argument."""
SEARCH = ("-I", "-isystem", "-iquote", "-idirafter", "-iprefix", "-iwithprefix", "-iwithprefixbefore")
"""Where headers are looked for: what was found is in the preprocessed text."""
ELSEWHERE = ("-save-temps", "-fdump-", "-ftime-trace", "-fprofile", "--coverage", "-fstack-usage", "-gsplit-dwarf",
             "-aux-info", "-fcallgraph-info", "-ftest-coverage", "-march=native", "-mtune=native", "-mcpu=native",
             "-specs", "-fplugin", "-wrapper", "-Wa,-a", "-fmodule", "-fauto-profile")  # fmt: skip
"""Beginnings of flags that write a second file, read one that the text does not show, or depend on the machine."""


class HostCall:
    """A gcc or g++ command line, taken apart."""

    __slots__ = ("cacheable", "depfile", "links", "output", "preprocess", "source", "target", "words")

    def __init__(self, arguments: Sequence[str]) -> None:
        self.words = expand(arguments)
        """All arguments, response files (``@file``) expanded."""
        flags, positional, preprocess = _walk(self.words)
        language = flags.get("-x", "")
        makes = not NO_OBJECT & flags.keys()
        compiles = makes and "-c" in flags and len(positional) == 1 and positional[0] != "-"
        known = language in LANGUAGES or (not language and positional[:1] and positional[0].endswith(SUFFIXES))
        self.source = positional[0] if compiles and known else ""
        """The one source that becomes an object; empty when it is another kind of call."""
        stem = os.path.splitext(os.path.basename(self.source))[0]
        self.output = flags.get("-o") or f"{stem}.o"
        self.depfile = ""
        """File for make with the headers it depends on; empty when none was asked for."""
        if "-MD" in flags or "-MMD" in flags:
            self.depfile = flags.get("-MF") or os.path.splitext(self.output)[0] + ".d"
        self.target = "-MT" in flags or "-MQ" in flags
        """Whether the dependency file's target was given."""
        self.links = bool(makes and "-c" not in flags and positional)
        """Compiles and links, or only links."""
        self.cacheable = bool(self.source) and not any(word.startswith(ELSEWHERE) for word in self.words)
        self.preprocess = tuple(preprocess)
        """The arguments without ``-c`` and ``-o``: with ``-E`` they give the text that is compiled."""

    def text_arguments(self) -> list[str]:
        """Arguments that write the preprocessed text to standard output and the dependency file to its place."""
        more = ["-E"]
        if self.depfile:
            more += [] if "-MF" in self.words else ["-MF", self.depfile]
            more += [] if self.target else ["-MQ", self.output]
        return [*self.preprocess, *more]

    def key_arguments(self) -> list[str]:
        """What of the arguments decides about the object, given the text: not where headers and results are."""
        shown = []
        words = iter(self.words)
        for word in words:
            if word in SEARCH or word in ("-o", "-MF", "-MT", "-MQ"):
                next(words, "")
            elif not word.startswith((*SEARCH, "-MF", "-MT", "-MQ")):
                shown.append(word)
        return shown


def expand(arguments: Sequence[str]) -> list[str]:
    """Arguments with the contents of response files in their place; a file that cannot be read stays as it is."""
    words: list[str] = []
    for argument in arguments:
        if argument.startswith("@") and os.path.isfile(argument[1:]):
            words += expand(option_words(argument[1:]))
        else:
            words.append(argument)
    return words


def _walk(words: Sequence[str]) -> tuple[dict[str, str], list[str], list[str]]:
    """(flag -> value, positional arguments, everything but -c and -o)."""
    flags: dict[str, str] = {}
    positional: list[str] = []
    rest: list[str] = []
    queue = iter(words)
    for word in queue:
        if word in WITH_VALUE:
            flags[word] = next(queue, "")
            if word != "-o":
                rest += [word, flags[word]]
        elif word.startswith("-o"):
            flags["-o"] = word[2:]
        elif word == "-c":
            flags[word] = ""
        else:
            rest.append(word)
            if word.startswith("-x"):
                flags["-x"] = word[2:]
            elif word.startswith("-MF"):
                flags["-MF"] = word[3:]
            elif word == "-" or not word.startswith("-"):
                positional.append(word)
            else:
                flags[word] = ""
    return flags, positional, rest
