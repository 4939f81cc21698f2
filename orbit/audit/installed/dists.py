"""Installed distributions as their metadata describes them: RECORD, WHEEL, name and version."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Iterable

import msgspec
from packaging.utils import canonicalize_name

from orbit.audit.facts import Distribution, Layout, RecordRow, join
from orbit.audit.files.texts import read_text
from orbit.audit.installed.tree import normalise

type Reader = Callable[[str], bytes | None]
"""Gives the content of a small file by its path relative to the tree's root; None when it is not there."""

SIZE = re.compile(r"^[0-9]{1,18}$")
"""Sizes that a file can have; a longer number is damage and counts as not stated."""
NAME = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,200}[A-Za-z0-9])?$")
"""Names that a distribution can have (PEP 508); any other in METADATA is damage, and the folder's name counts."""


def installed_dists(layout: Layout) -> tuple[Distribution, ...]:
    """Every ``*.dist-info`` folder of an environment on disk, in order of name."""
    with os.scandir(layout.prefix / layout.site) as listing:
        folders = [entry.name for entry in listing if entry.name.endswith(".dist-info") and entry.is_dir()]
    return read_dists((join(layout.site, folder) for folder in folders), lambda path: read_text(layout.prefix, path))


def read_dists(folders: Iterable[str], read: Reader) -> tuple[Distribution, ...]:
    """The distributions of dist-info ``folders`` (paths relative to the tree's root), in order of name."""
    dists = (read_dist(folder, read) for folder in folders)
    return tuple(sorted(dists, key=lambda dist: (dist.name, dist.folder)))


def owners_of(dists: Iterable[Distribution]) -> dict[str, str]:
    """Distribution name by path, the first owner in order of name."""
    found: dict[str, str] = {}
    for dist in reversed(tuple(dists)):
        found.update(dict.fromkeys([row.path for row in dist.rows], dist.name))
    return found


def read_dist(folder: str, read: Reader) -> Distribution:
    """One distribution: name and version as METADATA states them, else as its folder is called.

    Metadata that cannot be read becomes ``problem``, never an exception.
    """
    site, _, base = folder.rpartition("/")
    stem = base.removesuffix(".dist-info")
    name, _, version = stem.rpartition("-")
    name = name or stem
    rows: list[RecordRow] = []
    outside: list[str] = []
    record = read(f"{folder}/RECORD")
    problem = "RECORD: cannot be read" if record is None else _record(record, site, rows, outside)
    wheel = read_headers(read(f"{folder}/WHEEL"))
    metadata = read_headers(read(f"{folder}/METADATA"))
    return Distribution(
        name=canonicalize_name(stated if NAME.match(stated := _one(metadata, "name")) else name),
        version=_one(metadata, "version") or version,
        folder=folder,
        rows=tuple(rows),
        outside=tuple(outside),
        tags=tuple(wheel.get("tag", ())),
        problem=problem,
        site=site,
        pure={"true": True, "false": False}.get(_one(wheel, "root-is-purelib").lower()),
        requires=tuple(metadata.get("requires-dist", ())),
        requires_python=_one(metadata, "requires-python"),
        extras=tuple(canonicalize_name(extra) for extra in metadata.get("provides-extra", ())),
        summary=_one(metadata, "summary"),
        installer=(read(f"{folder}/INSTALLER") or b"").decode("utf-8", "replace").strip(),
        direct_url=_object(read(f"{folder}/direct_url.json")),
    )


def _record(content: bytes, site: str, rows: list[RecordRow], outside: list[str]) -> str:
    """Fill ``rows`` and ``outside`` from a RECORD; what is wrong with it, or empty."""
    problem = ""
    lead = f"{site}/" if site else ""
    try:
        fields = _rows(content.decode("utf-8", "surrogateescape"))
    except csv.Error as error:
        return f"RECORD: {error}"
    for row in fields:
        if row is None:
            problem = "RECORD: a line does not have three fields"
            continue
        if "\0" in row[0]:
            problem = "RECORD: a path with a zero byte in it"
            continue
        path, digest, size = row
        plain = path[:1] != "/" and "./" not in path and "//" not in path
        where = lead + path if plain else normalise(site, path)
        if where is None:
            outside.append(path)
            continue
        algorithm, _, value = digest.partition("=")
        rows.append(RecordRow(where, algorithm, value, int(size) if SIZE.match(size) else -1))
    return problem


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


def read_headers(content: bytes | None) -> dict[str, list[str]]:
    """Header fields of METADATA or WHEEL by lower-case name, up to the first empty line; folded lines are joined.

    A line of blanks alone continues a field, as in Python's ``email``: licences in ``License`` have such lines.
    """
    found: dict[str, list[list[str]]] = {}
    last: list[str] = []
    for line in (content or b"").decode("utf-8", "replace").splitlines():
        if not line:
            break
        if line[0] in " \t":
            last.append(line.strip())
            continue
        key, colon, value = line.partition(":")
        if colon:
            last = [value.strip()]
            found.setdefault(key.strip().lower(), []).append(last)
    return {key: ["\n".join(lines) for lines in values] for key, values in found.items()}


def _one(headers: dict[str, list[str]], key: str) -> str:
    return headers.get(key, [""])[0]


def _object(content: bytes | None) -> dict[str, object]:
    """A JSON object; one that cannot be read is an empty one with its text under ``unreadable``."""
    if content is None:
        return {}
    try:
        return msgspec.json.decode(content, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError):
        return {"unreadable": content[:200].decode("utf-8", "replace")}
