"""Sdists and wheels of the lock: one file by sha256, from ``ORBIT_SOURCES``, the store or the index."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path
from typing import Any

from orbit.core.console import Progress
from orbit.core.fetch import fetch
from orbit.core.files import sha256_file
from orbit.core.store import Store
from orbit.errors import InputError, MissingError
from orbit.kernels.sources.model import Source
from orbit.kernels.sources.places import VARIABLE, find_file, source_folders

FORMAT = 1


def archive_inputs(source: Source) -> dict[str, Any]:
    """The key of an sdist or a wheel in the store, under the kind of :func:`archive_kind`."""
    return {"format": FORMAT, "file": source.file, "sha256": source.sha256}


def archive_kind(source: Source) -> str:
    """Its kind in the store: ``sdist``, or ``locked-wheel`` for one that is not built here."""
    return "sdist" if source.kind == "sdist" else "locked-wheel"


def archive_path(entry: Path, source: Source) -> Path:
    """The file in its entry of the store.

    A wheel lies in a folder, for the store hashes the files at the top at every use: wheels have hundreds of MB.
    """
    return entry / source.file if source.kind == "sdist" else entry / "wheel" / source.file


def obtain_archive(source: Source, store: Store, progress: Progress, folders: tuple[Path, ...] | None = None) -> Path:
    """The sdist or wheel in the store, fetched when it is not there. An interrupted download goes on where it stopped.

    ``folders`` are looked into before the index, by default those of ``ORBIT_SOURCES``. Raises :class:`MissingError`
    saying what to fetch and where to put it, :class:`InputError` for a file of that name with other content.
    """
    places = source_folders() if folders is None else folders

    def work(folder: Path) -> dict[str, Any]:
        target = archive_path(folder, source)
        target.parent.mkdir(exist_ok=True)
        own = find_file(places, source.file)
        if own is not None:
            progress.step(f"taking {source.file} from {own.parent}")
            shutil.copyfile(own, target)  # no link: whoever owns the folder could change what was checked
            check_archive(target, source, own)
        else:
            progress.step(f"fetching {source.file}")
            _fetch(source, store.root / "downloads" / f"{source.sha256}.part", progress).rename(target)
        return {"file": source.file, "bytes": target.stat().st_size}

    return archive_path(store.obtain(archive_kind(source), archive_inputs(source), work).path, source)


def _fetch(source: Source, dest: Path, progress: Progress) -> Path:
    try:
        return fetch(source.url, source.sha256, dest, progress)
    except MissingError as error:
        raise MissingError(error.what, fix=archive_fix(source)) from None


def check_archive(path: Path, source: Source, named: Path | None = None) -> None:
    """Raise :class:`InputError` when the file is not the one the lock names; ``named`` is its name in the error."""
    found = sha256_file(path)
    if found != source.sha256:
        raise InputError(
            f"{named or path}: sha256 is {found}, the lock says {source.sha256}",
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
