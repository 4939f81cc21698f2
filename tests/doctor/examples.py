"""The samples of error texts: what is printed when a symptom strikes, and what only looks like it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "samples"


@dataclass(frozen=True, slots=True)
class Sample:
    """One text: ``=== symptom`` begins those of a symptom, ``---`` the next one, ``~~~`` one that must not match."""

    symptom: str
    near: bool
    text: str


@functools.cache
def samples() -> tuple[Sample, ...]:
    """All of them."""
    found: list[Sample] = []
    symptom, near, lines = "", False, []
    for path in sorted(FOLDER.glob("*.txt")):
        for line in [*path.read_text(encoding="utf-8").splitlines(), "=== "]:
            if line.startswith("=== ") or line in ("---", "~~~"):
                if lines:
                    found.append(Sample(symptom, near, "\n".join(lines) + "\n"))
                symptom = line.removeprefix("=== ") if line.startswith("=== ") else symptom
                near, lines = line == "~~~", []
            else:
                lines.append(line)
    return tuple(found)
