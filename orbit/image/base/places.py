"""Where packages may be had: folders of ``ORBIT_SOURCES``, mirrors of ``ORBIT_DEBIAN``, the archive of the host's apt.

A folder may hold a package directly, or at its path in the archive (a copy of a mirror). A mirror is an address below
which ``pool/`` and ``dists/`` lie: ``https://HOST/debian``, a snapshot of some day, ``file:///media/mirror/debian``.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, unquote, urlsplit

from orbit.core.console import Silent
from orbit.core.fetch import fetch
from orbit.core.files import sha256_file
from orbit.errors import CheckFailed, InputError, MissingError
from orbit.image.base.apt import Repository, download
from orbit.image.base.lock import LockedPackage

VARIABLE = "ORBIT_DEBIAN"
PARALLEL = 8
BATCH = 12
"""Packages per call of apt: few enough to see progress, enough that starting it costs nothing."""
SCHEMES = ("http", "https", "file")
SECURITY = "-security"

Told = Callable[[LockedPackage], None]
"""Called once for each package that arrived."""


class Place(Protocol):
    """Somewhere packages may be."""

    @property
    def name(self) -> str:
        """For people."""

    def get(self, wanted: Sequence[LockedPackage], folder: Path, told: Told) -> dict[str, str]:
        """Put packages at :func:`arrival` in ``folder``; return why each of the others could not be had, by file name.

        Raises :class:`InputError` for a file of the right name with other bytes.
        """


def arrival(folder: Path, package: LockedPackage) -> Path:
    """Where a fetched package is put."""
    return folder / f"{package.sha256}.deb"


def partial(folder: Path, package: LockedPackage) -> Path:
    """What arrived of it so far; :func:`orbit.core.fetch.fetch` uses the same name."""
    target = arrival(folder, package)
    return target.with_name(f".{target.name}.partial")


def wrong(package: LockedPackage, where: str, found: str) -> InputError:
    """A file that is not the locked one."""
    return InputError(
        f"{where}: {package.deb}: sha256 is {found}, the lock says {package.sha256}; it was not used",
        fix="a copy that is damaged, or another file of the same name: take it away, or do not use this place",
    )


class Folder:
    """A folder of ``ORBIT_SOURCES``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        """Its path."""
        return str(self.path)

    def find(self, package: LockedPackage) -> Path | None:
        """The file that should be the package."""
        return next((path for path in (self.path / package.deb, self.path / package.file) if path.is_file()), None)

    def get(self, wanted: Sequence[LockedPackage], folder: Path, told: Told) -> dict[str, str]:
        """See :class:`Place`."""
        problems = {}
        for package in wanted:
            own = self.find(package)
            if own is None:
                problems[package.deb] = "not there"
                continue
            # a copy, hashed as it lies in our own folder: whoever owns the original could change it afterwards
            into = partial(folder, package)
            into.write_bytes(own.read_bytes())
            _check(into, package, str(own.parent))
            os.replace(into, arrival(folder, package))
            told(package)
        return problems


class Mirrors:
    """The addresses of ``ORBIT_DEBIAN``, asked one after the other for each package, many packages at once."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls = tuple(urls)

    @property
    def name(self) -> str:
        """The addresses."""
        return ", ".join(self.urls)

    def get(self, wanted: Sequence[LockedPackage], folder: Path, told: Told) -> dict[str, str]:
        """See :class:`Place`."""
        stop = threading.Event()

        def one(package: LockedPackage) -> str:
            return "interrupted" if stop.is_set() else self._one(package, folder, told)

        with ThreadPoolExecutor(PARALLEL) as pool:
            jobs = {package.deb: pool.submit(one, package) for package in wanted}
            try:
                return {name: problem for name, job in jobs.items() if (problem := job.result())}
            except BaseException:
                stop.set()
                raise

    def _one(self, package: LockedPackage, folder: Path, told: Told) -> str:
        problems = []
        # security updates have an archive of their own: the likely one first
        for url in sorted(self.urls, key=lambda url: ("security" in url) != package.archive.endswith(SECURITY)):
            address = f"{url.rstrip('/')}/{quote(package.file, safe='/+~%')}"
            try:
                fetch(address, package.sha256, arrival(folder, package), Silent())
            except CheckFailed as error:
                raise wrong(package, url, error.what.partition("sha256 is ")[2].partition(",")[0]) from None
            except MissingError as error:
                problems.append((url, error.what.partition(": ")[2]))
                continue
            told(package)
            return ""
        if len(self.urls) == 1:
            return problems[0][1]
        return "; ".join(f"{url}: {problem}" for url, problem in problems)


class HostArchive:
    """The archive that the host's apt is configured for, fetched from by apt itself."""

    def __init__(self, repositories: Sequence[Repository]) -> None:
        self.repositories = tuple(repositories)

    @property
    def name(self) -> str:
        """The addresses."""
        return ", ".join(dict.fromkeys(each.url for each in self.repositories)) + " (of the host's apt)"

    def get(self, wanted: Sequence[LockedPackage], folder: Path, told: Told) -> dict[str, str]:
        """See :class:`Place`."""
        problems: dict[str, str] = {}
        for at in range(0, len(wanted), BATCH):
            batch = wanted[at : at + BATCH]
            tried = [(package, url) for package in batch for url in self._addresses(package)[:1]]
            said = download([(url, partial(folder, package)) for package, url in tried]) if tried else ""
            for package, url in tried:
                problem = _arrived(package, url, folder, said)
                for other in self._addresses(package)[1:] if problem else ():
                    problem = _arrived(package, other, folder, download([(other, partial(folder, package))]))
                    if not problem:
                        break
                if problem:
                    problems[package.deb] = problem
                else:
                    told(package)
        asked = {package.deb for package in wanted if self._addresses(package)}
        return problems | {package.deb: "no such archive" for package in wanted if package.deb not in asked}

    def _addresses(self, package: LockedPackage) -> list[str]:
        urls = dict.fromkeys(each.url for each in self.repositories if each.suite == package.archive)
        return [f"{url}{quote(package.file, safe='/+~%')}" for url in urls]


def _arrived(package: LockedPackage, url: str, folder: Path, said: str) -> str:
    """Why a package is not there; empty when it is, verified and renamed."""
    into = partial(folder, package)
    plain = unquote(url)  # apt writes addresses in a form of its own
    lines = [line for line in map(unquote, said.splitlines()) if plain in line]
    if lines:
        return lines[0].partition(plain)[2].strip() or lines[0]
    if said and (not into.is_file() or into.stat().st_size < package.size):
        return next((line for line in said.splitlines() if line.startswith("E:")), "not fetched")
    if not into.is_file():
        return "nothing arrived"
    _check(into, package, url)
    os.replace(into, arrival(folder, package))
    return ""


def _check(into: Path, package: LockedPackage, where: str) -> None:
    found = sha256_file(into)
    if found != package.sha256:
        into.unlink()
        raise wrong(package, where, found)


def mirrors(value: str | None = None) -> tuple[str, ...]:
    """The addresses that ``value`` (by default ``$ORBIT_DEBIAN``) lists, separated by blanks or commas.

    Raises :class:`InputError` for one that is no address.
    """
    text = os.environ.get(VARIABLE, "") if value is None else value
    found = tuple(text.replace(",", " ").split())
    for url in found:
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES or not (parts.netloc or parts.scheme == "file"):
            raise InputError(f"{VARIABLE}: {url!r}: not the address of a mirror", fix="http://HOST/debian, for example")
    return found
