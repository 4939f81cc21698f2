"""Sdists and wheels of the lock: one file by sha256, from ``ORBIT_SOURCES``, the store or the index."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path
from typing import Any

from orbit.core.console import Progress
from orbit.core.fetch import fetch
from orbit.core.files import sha256_file
from orbit.core.store import Entry, Store
from orbit.errors import InputError, MissingError
from orbit.kernels.sources.model import Source
from orbit.kernels.sources.places import VARIABLE, find_file, source_folders

FORMAT = 1


def archive_inputs(source: Source) -> dict[str, Any]:
    """The key of an sdist or a wheel in the store; its kind is the source's."""
    return {"format": FORMAT, "file": source.file, "sha256": source.sha256}


def archive_kind(source: Source) -> str:
    """Its kind in the store: ``sdist``, or ``locked-wheel`` for one that is not built here."""
    return "sdist" if source.kind == "sdist" else "locked-wheel"


def obtain_sdist(source: Source, store: Store, progress: Progress, folders: tuple[Path, ...] | None = None) -> Entry:
    """The sdist (or locked wheel) in the store, fetched when it is not there; its file name is ``source.file``.

    ``folders`` are looked into first, by default those of ``ORBIT_SOURCES``. An interrupted download goes on where it
    stopped. Raises :class:`MissingError` saying what to fetch and where to put it, :class:`InputError` for a file of
    the right name with other content.
    """
    places = source_folders() if folders is None else folders

    def work(folder: Path) -> dict[str, Any]:
        own = find_file(places, source.file)
        if own is not None:
            check_archive(own, source)
            shutil.copyfile(own, folder / source.file)
            return {"file": source.file}
        progress.step(f"fetching {source.file}")
        downloads = store.root / "downloads"
        try:
            arrived = fetch(source.url, source.sha256, downloads / f"{source.sha256}.part", progress)
        except MissingError as error:
            raise MissingError(error.what, fix=archive_fix(source)) from None
        arrived.rename(folder / source.file)
        return {"file": source.file}

    return store.obtain(archive_kind(source), archive_inputs(source), work)


def check_archive(path: Path, source: Source) -> None:
    """Raise :class:`InputError` when the file is not the one the lock names."""
    found = sha256_file(path)
    if found != source.sha256:
        raise InputError(
            f"{path}: sha256 is {found}, the lock says {source.sha256}",
            fix="copy it again, or take it away: it is damaged, or another file of the same name",
        )


def archive_fix(source: Source) -> str:
    """What to do when the file cannot be fetched: commands for a machine with network."""
    return (
        "check network, proxy variables and SSL_CERT_FILE; or on a machine with network:\n"
        f"    curl -fLo {source.file} {source.url}\n"
        f"    sha256sum {source.file}    # {source.sha256}\n"
        f"  copy the file here, into a folder that {VARIABLE} names, and run the same command again"
    )


def unpack_sdist(archive: Path, folder: Path) -> None:
    """Unpack an sdist so that its files lie directly in ``folder``.

    Raises :class:`InputError` for an archive that is not an sdist; members that would leave the folder are refused.
    """
    staging = folder.with_name(folder.name + ".unpack")
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(staging, filter="data")
    except (tarfile.TarError, EOFError) as error:
        raise InputError(f"{archive.name}: not a usable sdist: {error}", fix="lock another release") from None
    entries = list(staging.iterdir())
    if len(entries) != 1 or not entries[0].is_dir():
        raise InputError(f"{archive.name}: an sdist holds one folder, this has {len(entries)} entries")
    entries[0].rename(folder)
    staging.rmdir()
