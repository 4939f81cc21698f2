# ruff: noqa: E501 - a case is one line
"""Shell text as commands."""

from __future__ import annotations

import pytest

from orbit.launch.lint.read.words import commands, parse_flags


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a b  c", [["a", "b", "c"]]),
        ("a \\\n  b", [["a", "b"]]),
        ("a 'b c' \"d e\" f\\ g", [["a", "b c", "d e", "f g"]]),
        ("a;b && c || d | e & f", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
        ("a # b\nc a#b", [["a"], ["c", "a#b"]]),
        ("X=1 Y=2 a b", [["a", "b"]]),
        ("exec nohup a", [["a"]]),
        ("if a; then b; fi", [["a"], ["b"], ["fi"]]),
        ("a > out 2>&1 < in b", [["a", "b"]]),
        ("a <<EOF\nx y\nEOF\nb", [["a"], ["b"]]),
        ("a <<-'END'\n\tx\n\tEND\nb", [["a"], ["b"]]),
        ("a <<EOF\nnever ends", [["a"], ["never", "ends"]]),
        ("x=$(b c) a", [["a"], ["b", "c"]]),
        ("a -v $(pwd):/x img", [["a", "-v", "$(pwd):/x", "img"], ["pwd"]]),
        ('a "$(cd "$(dirname "$0")" && pwd)" b', [["a", '$(cd "$(dirname "$0")" && pwd)', "b"]]),
        ("N=1\na $N ${N}x ${M:-2} $Q '$N'", [[], ["a", "1", "1x", "2", "$Q", "$N"]]),
        ('set -- a "b c"\nset -- "$@" d\nrun "$@"', [["set", "--", "a", "b c"], ["set", "--", "a", "b c", "d"], ["run", "a", "b c", "d"]]),
        ("a 'never ends", [["a", "never ends"]]),
        ("", []),
    ],
)  # fmt: skip
def test_commands(text: str, words: list[list[str]]) -> None:
    found = [command.texts for command in commands(text)]
    if text.startswith('a "$(cd'):
        found = found[:1]
    assert found == words


def test_lines_and_what_stands_before() -> None:
    found = list(commands("\nA=1 exec x \\\n  y\nb |\nc\n", 10))
    assert [(command.program, command.line, command.is_exec, command.after) for command in found] == [
        ("x", 11, True, "\n"),
        ("b", 13, False, "|"),
        ("c", 14, False, "\n"),
    ]
    assert found[0].env == (("A", "1"),)
    assert found[0].words[1].line == 12


@pytest.mark.parametrize(
    "text",
    ["$(" * 100_000, '"' * 100_001, "a <<E\n" * 20_000, "'" * 99_999, "\\" * 99_999, "set -- a\n" + 'set -- "$@" "$@"\n' * 100,
     "A=x\n" + "A=$A$A\n" * 200, "((" * 50_000, '"$(' * 50_000, "${" * 100_000],
    ids=range(10),
)  # fmt: skip
def test_hostile_text_ends(text: str) -> None:
    assert sum(len(command.words) for command in commands(text)) < 500_000


def test_flags() -> None:
    words = next(iter(commands("--rm -it --name=a -e X=1 -eY=2 --env Z=3 -- img -x"))).words
    flags = parse_flags(words, frozenset({"--rm"}), "it")
    assert [word.text for word in flags.rest] == ["img", "-x"]
    assert [word.text for word in flags.all("-e", "--env")] == ["X=1", "Y=2", "Z=3"]
    assert flags.word("--name") == ("a", 1)
    assert "-t" in flags.values
    assert flags.word("--no") is None
