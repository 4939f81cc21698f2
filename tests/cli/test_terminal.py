"""Lines that fit a terminal; files and pipes get them whole."""

from __future__ import annotations

import os
import sys

import pytest

from orbit.cli import terminal
from orbit.cli.terminal import fold, print_text

PATHS = ":".join(f"/opt/orbit/lib/python3.12/site-packages/nvidia/part{number}/lib" for number in range(4))


def test_short_lines_are_left_alone() -> None:
    text = "layer  pull\n  a      1\n\nend"
    assert fold(text, 80) == text


def test_the_rest_stands_below_what_it_belongs_to() -> None:
    assert fold(f"env         LD_LIBRARY_PATH={PATHS}", 80).split("\n") == [
        f"env         LD_LIBRARY_PATH={PATHS.split(':')[0]}:",
        *(f"            {path}:" for path in PATHS.split(":")[1:-1]),
        f"            {PATHS.split(':')[-1]}",
    ]
    assert fold("  warning x: " + "word " * 12, 40).split("\n") == [
        "  warning x: word word word word word",
        "      word word word word word word word",
    ]


def test_words_are_never_broken() -> None:
    digest = "sha256:" + "0" * 64
    assert digest in fold(f"image {digest} of {digest}", 50).split("\n")[1]
    assert fold(digest, 50) == digest


def test_colours_take_no_room() -> None:
    line = "\x1b[31m" + "word " * 8 + "\x1b[0m"
    assert fold(line, 40) == line
    assert fold(line + "more", 40) == "\x1b[31m" + " ".join(["word"] * 8) + "\n    \x1b[0mmore"


@pytest.mark.parametrize("width", [1, 40, 57, 80, 120])
def test_nothing_is_lost(width: int) -> None:
    text = f"  label  {'some words, ' * 30}{PATHS}\nnext   {PATHS}"
    assert "".join(fold(text, width).split()) == "".join(text.split())


def test_only_a_terminal_is_folded_for(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    line = "word " * 30
    print_text(line)
    assert capsys.readouterr().out == f"{line}\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(terminal.shutil, "get_terminal_size", lambda: os.terminal_size((50, 20)))
    print_text(line)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 50
