"""Small files of the kernel below a root folder, so that any machine can be made up in a test."""

from __future__ import annotations

import os
from pathlib import Path

MOST_BYTES = 4 << 20


def text(root: Path, path: str) -> str:
    """Content of a file of /proc or /sys; empty where it cannot be read."""
    try:
        with open(root / path, "rb") as file:
            return file.read(MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""


def number(root: Path, path: str) -> int | None:
    """The whole number in a file; None where there is none (``max``, no file)."""
    word = text(root, path).split()[:1]
    try:
        return int(word[0]) if word else None
    except ValueError:
        return None


def names(root: Path, path: str) -> tuple[str, ...]:
    """What is in a folder, sorted; nothing where it cannot be read."""
    try:
        return tuple(sorted(os.listdir(root / path)))
    except OSError:
        return ()


def field(content: str, key: str) -> str:
    """The value behind ``key:`` in a file such as /proc/self/status; empty when it is not there."""
    return next((line.partition(":")[2].strip() for line in content.splitlines() if line.startswith(f"{key}:")), "")
