"""A wheel of the lock that is taken as it is: by name, from where sources come from. Never anything else in its place.

A wheel that cannot be had is an error that says what to fetch and where to put it. Nothing is compiled instead.
"""

from __future__ import annotations

from pathlib import Path

from orbit.core.console import Progress
from orbit.core.files import sha256_file
from orbit.core.store import Store
from orbit.errors import CheckFailed, MissingError
from orbit.kernels.sources import Source
from orbit.kernels.sources.archives import obtain_archive
from orbit.profile.lock import Lock


def locked_wheel(dist: str, lock: Lock) -> Source:
    """The wheel that the lock installs here. Raises :class:`MissingError` when it has none with a sha256."""
    package = lock.package(dist)
    if package.wheel is None or not package.wheel.sha256:
        has = "an sdist only" if package.sdist is not None else "no wheel for this platform"
        raise MissingError(
            f"{lock.path.name}: {dist} {package.version} has {has}: its recipe takes a published wheel and compiles "
            "nothing instead",
            fix="lock a release with a wheel for this platform, or write a recipe with mode = 'source' for it",
        )
    wheel = package.wheel
    return Source(kind="wheel", version=package.version, sha256=wheel.sha256, file=wheel.filename, url=wheel.url)


def obtain_wheel(source: Source, store: Store, progress: Progress) -> Path:
    """The file, checked against the lock's sha256 when it came into the store.

    Raises :class:`MissingError` when neither a folder of ``ORBIT_SOURCES`` nor the index has it, and
    :class:`orbit.errors.InputError` or :class:`CheckFailed` when what is there is another file.
    """
    try:
        path = obtain_archive(source, store, progress)
        if not path.is_file():
            store.discard(path.parent.parent)
            path = obtain_archive(source, store, progress)
    except MissingError as error:
        raise MissingError(f"{error.what}; nothing is compiled in its place", fix=error.fix) from None
    return path


def check_hash(wheel: Path, source: Source) -> None:
    """Raise :class:`CheckFailed` when ``wheel`` is not the file of the lock."""
    found = sha256_file(wheel)
    if found != source.sha256:
        raise CheckFailed(
            f"{wheel.name}: sha256 is {found}, the lock says {source.sha256}",
            fix="it is another build, or damaged: fetch the file that the lock names; nothing of this one is used",
        )
