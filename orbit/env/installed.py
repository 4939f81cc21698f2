"""RECORD of installed distributions: read, corrected to what is on disk, written back in one canonical form.

After installation some files are not what the wheel's RECORD says: scripts are rewritten, compiled files appear, notes
of the installer about this machine go away, and two distributions may have written one path. RECORD must tell the truth
about all of these, because the audit, the image's layers and some libraries at run time go by it.

Compiled files are listed without hash and size, as pip does: the format allows it for files made after installation.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from orbit.core.digests import record_digest
from orbit.env.bytecode import compiled_path
from orbit.env.record import Contested
from orbit.errors import InputError

HOST_NOTES = ("direct_url.json", "uv_cache.json", "uv_build.json")
"""What installers note about where a wheel came from on this machine: paths and times, gone from the result."""
INSTALLER = b"orbit"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of RECORD."""

    path: str
    """Relative to site-packages, normalised."""
    digest: str
    """``sha256=...`` in URL-safe base64 without padding; empty when not stated."""
    size: str


@dataclass(frozen=True, slots=True)
class Installed:
    """One distribution on disk."""

    name: str
    """Normalised."""
    info: Path
    """Its ``.dist-info`` folder."""
    lines: tuple[Line, ...]


def read_installed(site: Path) -> tuple[Installed, ...]:
    """All distributions of a site-packages folder, sorted by name. Raises :class:`InputError` without a RECORD."""
    return tuple(sorted(map(read_record, site.glob("*.dist-info")), key=lambda installed: installed.name))


def read_record(info: Path) -> Installed:
    """The distribution of one ``.dist-info`` folder. Raises :class:`InputError` without a RECORD."""
    try:
        text = (info / "RECORD").read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(
            f"{info.name}: no RECORD, so nobody knows what it installed", fix="report it to that package"
        ) from None
    lines = tuple(Line(_normal(row[0]), row[1], row[2]) for row in csv.reader(io.StringIO(text)) if row)
    return Installed(canonicalize_name(info.name.partition("-")[0]), info, lines)


def _normal(path: str) -> str:
    return os.path.normpath(path) if "./" in path or "//" in path or path.startswith("/") else path


def contested_paths(installed: Iterable[Installed]) -> dict[str, tuple[str, ...]]:
    """Paths that several distributions claim with different content: path to their names, sorted."""
    claims: dict[str, dict[str, str]] = defaultdict(dict)
    for dist in installed:
        for line in dist.lines:
            claims[line.path][dist.name] = line.digest
    return {path: tuple(sorted(names)) for path, names in claims.items() if len(set(names.values())) > 1}


def digest_of(path: Path) -> tuple[str, str]:
    """Hash and size of a file as RECORD spells them."""
    with open(path, "rb") as file:
        raw = hashlib.file_digest(file, "sha256").digest()
    return "sha256=" + record_digest(raw), str(path.stat().st_size)


def stated(dist: Installed, path: str) -> str:
    """The hash that ``dist`` states for ``path``; empty when it does not."""
    return next((line.digest for line in dist.lines if line.path == path), "")


def drop_host_notes(installed: Iterable[Installed]) -> None:
    """Delete what the installer noted about this machine, and put one name for the installer."""
    for dist in installed:
        for name in HOST_NOTES:
            (dist.info / name).unlink(missing_ok=True)
        (dist.info / "INSTALLER").write_bytes(INSTALLER)


def rewrite(
    site: Path,
    installed: Iterable[Installed],
    *,
    changed: Collection[str],
    lost: Mapping[str, Collection[str]],
) -> None:
    """Write every RECORD anew: sorted, true to the disk, with compiled files.

    ``changed`` holds paths (relative to ``site``) whose content is no longer the wheel's; ``lost`` maps a
    distribution's name to contested paths that now belong to another.
    """
    for dist in installed:
        own = dist.info.name
        remade = {f"{own}/INSTALLER", *changed}
        gone = {*(f"{own}/{name}" for name in HOST_NOTES), *lost.get(dist.name, ())}
        lines = {line.path: line for line in dist.lines if line.path not in gone}
        for path in sorted(remade & lines.keys()):
            lines[path] = Line(path, *digest_of(site / path))
        for path in list(lines):
            if path.endswith(".py") and (site / compiled_path(path)).is_file():
                lines[compiled_path(path)] = Line(compiled_path(path), "", "")
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows((line.path, line.digest, line.size) for _, line in sorted(lines.items()))
        (dist.info / "RECORD").write_text(text.getvalue(), encoding="utf-8")


def as_contested(site: Path, prefix: Path, contested: Mapping[str, tuple[str, ...]]) -> tuple[Contested, ...]:
    """The record of contested paths: the last name in order keeps each."""
    return tuple(
        Contested(path=os.path.relpath(site / path, prefix), kept=names[-1], dropped=names[:-1])
        for path, names in sorted(contested.items())
    )
