"""sha256 of every file of an environment, beside its manifest: who packs or compares one need not read 10 GB.

For most files it is what their RECORD says, which was compared with the disk when they were installed; a file taken
over from an earlier environment keeps what that one says; the rest (compiled files, the interpreter) is hashed here.
Digests are spelt as in RECORD: urlsafe base64 without padding.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orbit.audit.facts import RecordRow
from orbit.audit.installed.hashing import Hashing
from orbit.env.tree import read_lines, write_lines
from orbit.errors import CheckFailed, InputError

CONTENTS = "contents.tsv"


@dataclass(frozen=True, slots=True)
class _Files:
    rows: tuple[RecordRow, ...]


def hash_files(prefix: Path, sizes: Mapping[str, int]) -> dict[str, str]:
    """sha256 of the files ``sizes`` (bytes by path relative to ``prefix``), on all processors.

    Raises :class:`CheckFailed` when a file cannot be read or is of another size.
    """
    rows = tuple(RecordRow(path, "sha256", "", size) for path, size in sizes.items())
    found = Hashing(prefix, [_Files(rows)]).result() if rows else {}
    for path, digest in found.items():
        if digest.startswith("!"):
            raise CheckFailed(f"{prefix / path}: {digest[1:]}", fix="stop whatever writes there, then run it again")
    return dict(found)


def write_contents(entry: Path, contents: Mapping[str, str]) -> None:
    """Write ``contents.tsv`` of a store entry: ``path TAB sha256`` for each file, sorted by path."""
    write_lines(entry / CONTENTS, [f"{path}\t{contents[path]}" for path in sorted(contents)])


def read_contents(entry: Path) -> dict[str, str]:
    """sha256 by path relative to ``entry / "prefix"``. Raises :class:`InputError` when the entry does not say."""
    try:
        return dict(line.split("\t") for line in read_lines(entry / CONTENTS))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{entry / CONTENTS}: {error}", fix=f"remove {os.path.dirname(entry / CONTENTS)} and make it again"
        ) from None
