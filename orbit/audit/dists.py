"""Installed distributions as their metadata describes them: RECORD, WHEEL, name and version."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable
from pathlib import Path

from orbit.audit.facts import Distribution, Layout, RecordRow, join
from orbit.audit.tree import normalise

SIZE = re.compile(r"^[0-9]{1,18}$")
"""Sizes that a file can have; a longer number is damage and counts as not stated."""


def read_dists(layout: Layout) -> tuple[Distribution, ...]:
    """Every ``*.dist-info`` folder of the environment, in order of name."""
    with os.scandir(layout.prefix / layout.site) as listing:
        folders = [entry.name for entry in listing if entry.name.endswith(".dist-info") and entry.is_dir()]
    dists = (read_dist(layout, join(layout.site, folder)) for folder in folders)
    return tuple(sorted(dists, key=lambda dist: (dist.name, dist.folder)))


def owners_of(dists: Iterable[Distribution]) -> dict[str, str]:
    """Distribution name by path, the first owner in order of name."""
    found: dict[str, str] = {}
    for dist in reversed(tuple(dists)):
        found.update(dict.fromkeys([row.path for row in dist.rows], dist.name))
    return found


def read_dist(layout: Layout, folder: str) -> Distribution:
    """One distribution. Metadata that cannot be read becomes ``problem``, never an exception."""
    base = layout.prefix / folder
    stem = folder.rpartition("/")[2].removesuffix(".dist-info")
    name, _, version = stem.rpartition("-")
    lead = f"{layout.site}/" if layout.site else ""
    rows: list[RecordRow] = []
    outside: list[str] = []
    problem = ""
    try:
        text = (base / "RECORD").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        problem = f"RECORD: {error.strerror}"
    else:
        try:
            fields = _rows(text)
        except csv.Error as error:
            fields, problem = [], f"RECORD: {error}"
        for row in fields:
            if row is None:
                problem = "RECORD: a line does not have three fields"
                continue
            if "\0" in row[0]:
                problem = "RECORD: a path with a zero byte in it"
                continue
            path, digest, size = row
            plain = path[:1] != "/" and "./" not in path and "//" not in path
            where = lead + path if plain else normalise(layout.site, path)
            if where is None:
                outside.append(path)
                continue
            algorithm, _, value = digest.partition("=")
            rows.append(RecordRow(where, algorithm, value, int(size) if SIZE.match(size) else -1))
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
