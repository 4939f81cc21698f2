"""Text for whoever reads it: a terminal gets lines that fit, a file or a pipe gets them as they are."""

from __future__ import annotations

import re
import shutil
import sys

MIN_WIDTH = 40
BREAKS = re.compile(r"(?<= )(?=\S)|(?<=[:,])(?=/)")
"""Where a line may be broken: between words, and between the paths of a list."""
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
LABEL = re.compile(r" *\S+ {2,}")
"""The beginning of a line that the rest of it stands to the right of."""


def print_text(text: str) -> None:
    """Print ``text`` on stdout, folded to the width of the terminal if there is one."""
    if sys.stdout.isatty():
        text = fold(text, shutil.get_terminal_size().columns)
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")


def fold(text: str, width: int) -> str:
    """``text`` in lines of at most ``width`` characters, as far as words allow: names, paths and digests stay whole."""
    width = max(width, MIN_WIDTH)
    return "\n".join(part for line in text.split("\n") for part in _fold(line, width))


def _shown(text: str) -> int:
    """Characters that are seen: colours are none."""
    return len(COLOUR.sub("", text))


def _fold(line: str, width: int) -> list[str]:
    if _shown(line) <= width:
        return [line]
    label = LABEL.match(line)
    beside = label.end() if label is not None and label.end() <= width // 2 else 0
    hang = " " * (beside or len(line) - len(line.lstrip()) + 4)
    lines, current = [], ""
    for piece in BREAKS.split(line):
        if current.strip() and _shown(current) + _shown(piece.rstrip()) > width and len(current) > len(hang):
            lines.append(current.rstrip())
            current = hang
        current += piece
    return [*lines, current.rstrip()]
