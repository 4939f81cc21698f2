"""Shell text as commands of words, with lines: enough of the language to find a docker line and what it starts.

Quotes, continued lines, comments, here-documents and variables that the script itself sets are understood; what only a
running shell knows (substitutions, other variables) stays as it is written. Nothing is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from orbit.launch.lint.facts import Word

TOKEN = re.compile(
    r"""(?P<blank>[ \t\r]+|\\\n)
      | (?P<comment>\#[^\n]*)
      | (?P<here><<-?[ \t]*(?P<quote>['"]?)(?P<end>[A-Za-z_][\w.]*)(?P=quote))
      | (?P<separator>\n|;;|;|&&|\|\||\|&|&>>|&>|>&|>>|<<<|[&|()<>])
      | (?P<single>'[^']*'?)
      | (?P<double>")
      | (?P<inner>\$\()
      | (?P<bare>(?:[^\s'"\\;&|()<>$]|\\.|\$(?!\())+)
      | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
BRACKETS = re.compile(r'\\.|["()]|\$\(', re.DOTALL)
NESTED = 5
"""Substitutions inside of substitutions that are read."""
VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?::?[-=]([^}]*))?\}|([A-Za-z_]\w*))")
ASSIGNMENT = re.compile(r"^([A-Za-z_]\w*)=(.*)$", re.DOTALL)
REDIRECTIONS = frozenset((">", ">>", "<", "&>", "&>>", ">&", "<<<"))
OPENING = frozenset(("if", "then", "else", "elif", "while", "until", "do", "!", "{", "time", "exec", "nohup", "sudo"))
"""Words that a command may follow."""
MOST_HERES = 50
MOST_WORDS = 4000
"""Words of one command that are carried on."""
LONGEST = 4096
"""Characters of a variable's value that are carried on."""


class Command(NamedTuple):
    """One simple command."""

    words: tuple[Word, ...]
    """Without assignments and redirections before, in and behind it."""
    line: int
    env: tuple[tuple[str, str], ...] = ()
    """Assignments before the command, or the whole of it."""
    is_exec: bool = False
    """Whether ``exec`` stands before it."""
    after: str = ""
    """The separator behind it."""

    @property
    def texts(self) -> list[str]:
        """The words without their lines."""
        return [word.text for word in self.words]

    @property
    def program(self) -> str:
        """The last part of the first word's path."""
        return self.words[0].text.rpartition("/")[2] if self.words else ""


class _Parser:
    def __init__(self, text: str, line: int, variables: dict[str, str] | None, depth: int = 0) -> None:
        self.text = text
        self.depth = depth
        self.line = line
        self.variables = {} if variables is None else variables
        self.words: list[Word] = []
        self.pieces: list[str] = []
        self.start = line
        self.skip = False
        self.heres: list[str] = []
        self.endless: set[str] = set()
        """Here-documents that do not end: not looked for again."""
        self.given: list[Word] | None = None
        """What ``set -- ...`` made of ``"$@"``; None: whatever the caller gives."""
        self.inner: list[tuple[str, int]] = []
        """Substitutions whose commands come after the one they are in."""

    def run(self) -> Iterator[Command]:
        position = 0
        while position < len(self.text) and (match := TOKEN.match(self.text, position)):
            kind, piece, position = self._token(match)
            if kind in ("blank", "comment", "here", "separator"):
                self._flush()
            else:
                self._piece(kind, piece)
            if kind == "here":
                self.heres.append(match["end"])
            elif kind == "separator":
                yield from self._separator(piece)
            self.line += piece.count("\n")
            if piece == "\n" and self.heres:
                position = self._skip_heres(position)
        self._flush()
        yield from self._command("")

    def _token(self, match: re.Match[str]) -> tuple[str, str, int]:
        """Kind, text and end of what ``match`` begins."""
        kind, position = match.lastgroup or "", match.end()
        if kind == "comment" and self.pieces:
            return "bare", "#", match.start() + 1
        if kind in ("double", "inner"):
            position = self._balanced(position, quoted=kind == "double")
        return kind, self.text[match.start() : position], position

    def _separator(self, piece: str) -> Iterator[Command]:
        if piece not in REDIRECTIONS:
            yield from self._command(piece)
            return
        if self.words and self.words[-1].text.isdigit():
            self.words.pop()
        self.skip = True

    def _piece(self, kind: str, text: str) -> None:
        if not self.pieces:
            self.start = self.line
        if kind == "single":
            self.pieces.append(text[1:].removesuffix("'"))
        elif kind == "double":
            inner = text[1:-1] if len(text) > 1 and text.endswith('"') else text[1:]
            self._remember(inner)
            inner = re.sub(r'\\(["\\$`]|\n)', lambda found: "" if found[1] == "\n" else found[1], inner)
            self.pieces.append(self._expand(inner))
        elif kind == "inner":
            self._remember(text)
            self.pieces.append(text)
        else:
            self.pieces.append(self._expand(re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)))

    def _balanced(self, position: int, *, quoted: bool) -> int:
        """Where the quote or the substitution ends that begins before ``position``; the end of the text if nowhere."""
        depth = 0 if quoted else 1
        for match in BRACKETS.finditer(self.text, position):
            found = match[0]
            if found == '"' and depth == 0:
                return match.end()
            if found == "$(" or (found == "(" and depth):
                depth += 1
            elif found == ")" and depth:
                depth -= 1
                if depth == 0 and not quoted:
                    return match.end()
        return len(self.text)

    def _remember(self, text: str) -> None:
        start = text.find("$(")
        if start >= 0 and self.depth < NESTED and not text.startswith("$((", start):
            self.inner.append((text[start + 2 : text.rfind(")")], self.line + text.count("\n", 0, start)))

    def _expand(self, text: str) -> str:
        if "$" not in text:
            return text

        def value(match: re.Match[str]) -> str:
            return self.variables.get(match[1] or match[3], match[0] if match[2] is None else match[2])

        return VARIABLE.sub(value, text)[:LONGEST]

    def _flush(self) -> None:
        if self.pieces:
            if not self.skip:
                self.words.append(Word("".join(self.pieces), self.start))
            self.skip = False
            self.pieces = []

    def _command(self, separator: str) -> Iterator[Command]:
        words, self.words, self.skip = self._spliced(self.words), [], False
        env: list[tuple[str, str]] = []
        is_exec = False
        line = words[0].line if words else self.line
        while words:
            match = ASSIGNMENT.match(words[0].text)
            if match:
                env.append((match[1], match[2]))
            elif words[0].text in ("export", "declare", "env", "local", "readonly"):
                pass
            elif words[0].text in OPENING:
                is_exec = is_exec or words[0].text == "exec"
            else:
                break
            words = words[1:]
        if not words and separator != "(":  # NAME=( begins a list
            self.variables.update((name, value[:LONGEST]) for name, value in env)
        if [word.text for word in words[:2]] == ["set", "--"]:
            self.given = words[2:]
        if words or env:
            yield Command(tuple(words), line, tuple(env), is_exec, separator)
        inner, self.inner = self.inner, []
        for text, start in inner:
            yield from _Parser(text, start, self.variables, self.depth + 1).run()

    def _spliced(self, words: list[Word]) -> list[Word]:
        """``words`` with ``"$@"`` filled in."""
        if self.given is None or all(word.text != "$@" for word in words):
            return words
        made: list[Word] = []
        for word in words:
            made += self.given if word.text == "$@" else [word]
        return made[:MOST_WORDS]

    def _skip_heres(self, position: int) -> int:
        for end in self.heres:
            if end in self.endless or len(self.endless) > MOST_HERES:
                continue
            match = re.compile(rf"^[ \t]*{re.escape(end)}[ \t]*$", re.MULTILINE).search(self.text, position)
            if match is None:
                self.endless.add(end)
            stop = match.end() if match else position
            self.line += self.text.count("\n", position, stop)
            position = stop
        self.heres = []
        return position


def commands(text: str, line: int = 1, variables: dict[str, str] | None = None) -> Iterator[Command]:
    """The commands of shell ``text`` whose first line is ``line``. ``variables`` are known and added to."""
    return _Parser(text, line, variables).run()


class Flags(NamedTuple):
    """A command line taken apart."""

    values: dict[str, list[Word]]
    """By flag, with its dashes; a flag without value has an empty one."""
    rest: tuple[Word, ...]
    """From the first word that is no flag."""

    def word(self, *names: str) -> Word | None:
        """The last value of a flag, by any of its names."""
        found = [word for name in names for word in self.values.get(name, ())]
        return found[-1] if found else None

    def all(self, *names: str) -> tuple[Word, ...]:
        """Every value of a flag."""
        return tuple(word for name in names for word in self.values.get(name, ()))


def parse_flags(words: tuple[Word, ...], switches: frozenset[str], letters: str = "") -> Flags:
    """``words`` as flags: all but ``switches`` (long ones) and ``letters`` (short ones) take a value."""
    values: dict[str, list[Word]] = {}
    place = 0
    while place < len(words):
        text, line = words[place]
        place += 1
        if text == "--":
            break
        if not text.startswith("-") or text == "-":
            place -= 1
            break
        name, equals, value = text.partition("=")
        if text.startswith("--"):
            if not equals and name not in switches:
                value = words[place].text if place < len(words) else ""
                place += 1
            values.setdefault(name, []).append(Word(value, line))
            continue
        letter = 1
        while letter < len(text):
            flag = f"-{text[letter]}"
            letter += 1
            if text[letter - 1] in letters:
                values.setdefault(flag, []).append(Word("", line))
                continue
            value = text[letter:].removeprefix("=")
            if not value and place < len(words):
                value = words[place].text
                place += 1
            values.setdefault(flag, []).append(Word(value, line))
            break
    return Flags(values, words[place:])
