"""Installed distributions as their metadata describes them: RECORD, WHEEL, name and version."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from orbit.audit.facts import Distribution, Layout, RecordRow, Tree
from orbit.audit.tree import normalise


def read_dists(layout: Layout, tree: Tree) -> tuple[Distribution, ...]:
    """Every ``*.dist-info`` folder of the environment, in order of name."""
    lead = f"{layout.site}/" if layout.site else ""
    folders = [
        path
        for path, fact in tree.entries.items()
        if path.endswith(".dist-info") and path.startswith(lead) and "/" not in path[len(lead) :] and fact.is_folder
    ]
    return tuple(sorted((read_dist(layout, folder) for folder in folders), key=lambda dist: (dist.name, dist.folder)))


def read_dist(layout: Layout, folder: str) -> Distribution:
    """One distribution. Metadata that cannot be read becomes ``problem``, never an exception."""
    base = layout.prefix / folder
    stem = folder.rpartition("/")[2].removesuffix(".dist-info")
    name, _, version = stem.rpartition("-")
    rows: list[RecordRow] = []
    outside: list[str] = []
    problem = ""
    try:
        text = (base / "RECORD").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        problem = f"RECORD: {error.strerror}"
    else:
        for row in _rows(text):
            if row is None:
                problem = "RECORD: a line does not have three fields"
                continue
            path, digest, size = row
            where = normalise(layout.site, path)
            if where is None:
                outside.append(path)
                continue
            algorithm, _, value = digest.partition("=")
            rows.append(RecordRow(where, algorithm, value, int(size) if size.isdecimal() else -1))
    return Distribution(
        name=name.replace("_", "-").lower() or stem,
        version=version,
        folder=folder,
        rows=tuple(rows),
        outside=tuple(outside),
        tags=_tags(base / "WHEEL"),
        problem=problem,
    )


def _rows(text: str) -> list[list[str] | None]:
    """Fields of every line; None for a line that is not (path, hash, size)."""
    if '"' not in text:
        rows: list[list[str] | None] = []
        for line in text.replace("\r\n", "\n").rstrip("\n").split("\n"):
            fields = line.split(",")
            if fields != [""]:
                rows.append(fields if len(fields) == 3 else None)
        return rows
    return [fields if len(fields) == 3 else None for fields in csv.reader(io.StringIO(text, newline="")) if fields]


def _tags(wheel: Path) -> tuple[str, ...]:
    try:
        lines = wheel.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    return tuple(line.partition(":")[2].strip() for line in lines if line.startswith("Tag:"))
