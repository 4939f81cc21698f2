"""The two questions: what is wrong on this machine, and what does this text mean."""

from __future__ import annotations

import gzip
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

from orbit import __version__
from orbit.doctor.catalog import load_catalog
from orbit.doctor.diagnosis import Diagnosis, rank
from orbit.doctor.facts import Facts
from orbit.doctor.nearest import nearest
from orbit.doctor.scan import PIECE_BYTES, scan
from orbit.doctor.sight import sightings_of, unnamed
from orbit.errors import InputError

LOG_NAMES = (".log", ".txt", ".out", ".err", ".gz")


def diagnose(facts: Facts) -> Diagnosis:
    """What is wrong by these facts."""
    catalog = load_catalog()
    sightings = sightings_of(facts, catalog)
    return Diagnosis(
        orbit=__version__,
        asked="machine",
        causes=rank(catalog, sightings=sightings),
        looked=facts.looked,
        skipped=facts.skipped,
        others=unnamed(facts.findings, catalog),
    )


def explain(text: str) -> Diagnosis:
    """What an error means: ``text`` is the error itself, the name of a file with it, or ``-`` for standard input.

    Raises :class:`InputError` for no text at all, and for a name of a file that is not there.
    """
    asked, pieces = _source(text)
    catalog = load_catalog()
    found = scan(pieces, catalog)
    if not found.bytes:
        raise InputError(f"{asked}: empty", fix='orbit doctor --explain "text of the error", or a file, or - for stdin')
    causes = rank(catalog, hits=found.hits)
    return Diagnosis(
        orbit=__version__,
        asked=asked,
        causes=causes,
        near=() if causes else nearest(text),
        lines=found.lines,
        bytes=found.bytes,
    )


def _source(text: str) -> tuple[str, Iterator[bytes]]:
    if text == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed", fix="orbit doctor --explain - < FILE")
        return "standard input", _read(sys.stdin.fileno())
    if "\n" not in text and len(os.fsencode(text)) < 4096 and os.path.exists(text):
        if stat.S_ISDIR(os.stat(text).st_mode):
            raise InputError(f"{text}: is a folder", fix="name a file of it")
        return text, _open(Path(text))
    if text.endswith(LOG_NAMES) and " " not in text:
        raise InputError(f"{text}: no such file", fix="name a file that is there, or give the text of the error")
    return "text", iter([text.encode("utf-8", "surrogateescape")] if text.strip() else [])


def _open(path: Path) -> Iterator[bytes]:
    """A file, a pipe, or a log that was rotated and compressed."""
    with open(path, "rb") as file:
        if path.suffix != ".gz":
            yield from _read(file.fileno())
            return
        try:
            with gzip.open(file) as content:
                while piece := content.read(PIECE_BYTES):
                    yield piece
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InputError(f"{path}: {error}", fix="a whole file of gzip, or the text itself") from None


def _read(handle: int) -> Iterator[bytes]:
    while piece := os.read(handle, PIECE_BYTES):
        yield piece
