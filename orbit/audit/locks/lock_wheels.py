"""The wheels of a lock as facts: each one's metadata from what is remembered, from folders, or from its server."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from orbit.audit.archives.wheels import combine
from orbit.audit.archives.zip_source import NotZip, ZipSource
from orbit.audit.facts import Distribution, Environment, Layout, join
from orbit.audit.locks.remote import RemoteZip, Web
from orbit.audit.locks.sdist import MAX_BYTES as MAX_SDIST_BYTES
from orbit.audit.locks.sdist import SdistFacts, encode, read_sdist
from orbit.audit.locks.wheel_metadata import Remembered, WheelMetadata, metadata_facts, read_metadata
from orbit.core.console import Progress
from orbit.core.files import sha256_file
from orbit.errors import InputError, MissingError
from orbit.profile.lock import Artifact, Package
from orbit.profile.model import Profile

WORKERS = 16
"""Requests under way at once: what a server takes from one visitor, and more than one connection can fill."""
DEADLINE_S = 900.0
"""For all servers together: one that sends a byte now and then must not hold an audit up."""
GIVE_UP_AFTER = 3
"""Servers that did not answer before anything did: then there is no network."""


@dataclass(slots=True)
class Read:
    """What became of the files of a lock; filled by threads, one key each."""

    wheels: dict[str, WheelMetadata] = field(default_factory=dict)
    """By file name."""
    sdists: dict[str, SdistFacts] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    """Why a file was not read, by file name: nothing is known of it."""
    broken: dict[str, str] = field(default_factory=dict)
    """What is wrong with a file that was read, by file name."""
    remembered: int = 0
    local: int = 0
    requests: int = 0
    bytes: int = 0
    """Received."""


class Reader:
    """Reads the files of one lock."""

    def __init__(
        self, lock: Path, *, cache: Path | None, folders: Sequence[Path], offline: bool, progress: Progress
    ) -> None:
        self._base = lock.parent
        self._remembered = Remembered(cache / "wheels" if cache else None)
        self._sdists = cache / "sdists" if cache else None
        self._folders = {path.name: path for folder in folders for path in sorted(folder.glob("*.whl"))}
        self._offline = offline
        self._progress = progress
        self._lock = threading.Lock()
        self._lost: list[str] = []
        self.read = Read()

    def run(self, packages: Iterable[Package]) -> Read:
        """Read the wheel of every package, and the source archive of those that have none."""
        wanted = {artifact.filename: artifact for p in packages if (artifact := p.wheel or p.sdist) is not None}
        with Web() as web, ThreadPoolExecutor(WORKERS) as pool:
            late = threading.Timer(DEADLINE_S, web.abort)
            late.daemon = True
            late.start()
            for number, _ in enumerate(pool.map(lambda artifact: self._one(web, artifact), wanted.values())):
                self._progress.advance("wheels of the lock", number + 1, len(wanted))
            late.cancel()
            self.read.requests, self.read.bytes = web.requests, web.bytes
        return self.read

    def _one(self, web: Web, artifact: Artifact) -> None:
        try:
            if artifact.filename.endswith(".whl"):
                self._wheel(web, artifact)
            else:
                self._sdist(web, artifact)
        except NotZip as error:
            self.read.broken[artifact.filename] = error.why
        except InputError as error:
            self.read.broken[artifact.filename] = error.what
        except MissingError as error:
            self.read.unread[artifact.filename] = error.what.removeprefix(f"{artifact.filename}: ")
            if web.requests == 0:
                with self._lock:
                    self._lost.append(error.what)
        except OSError as error:
            self.read.unread[artifact.filename] = error.strerror or str(error)

    def _wheel(self, web: Web, artifact: Artifact) -> None:
        found = self._remembered.find(artifact.sha256)
        if found is not None:
            self.read.wheels[artifact.filename] = found
            with self._lock:
                self.read.remembered += 1
            return
        local = self._local(artifact)
        if local is not None:
            with ZipSource(local) as source:
                found = read_metadata(source)
            with self._lock:
                self.read.local += 1
        else:
            self._ask(artifact)
            with RemoteZip(web, artifact.url, artifact.filename, artifact.size) as source:
                found = read_metadata(source)
        self.read.wheels[artifact.filename] = found
        self._remembered.keep(artifact.sha256, found)

    def _local(self, artifact: Artifact) -> Path | None:
        """The file on disk: in a folder that was given, or beside a lock that names it by path.

        Raises :class:`InputError` when it is another file than the lock's.
        """
        path = self._folders.get(artifact.filename)
        if path is None and "://" not in artifact.url and artifact.url:
            path = self._base / artifact.url
        if path is None or not path.is_file():
            return None
        if artifact.sha256 and sha256_file(path) != artifact.sha256:
            raise InputError(f"{path.name}: the file in {path.parent.name or '.'} is not the lock's (sha256)")
        return path

    def _ask(self, artifact: Artifact) -> None:
        """Raises :class:`MissingError` when nothing may or can be asked for."""
        if self._offline:
            raise MissingError("not remembered, and the network is not to be used (--offline)")
        if not artifact.url or urlsplit(artifact.url).scheme not in ("http", "https"):
            raise MissingError("the lock names no URL of it")
        if len(self._lost) >= GIVE_UP_AFTER:
            raise MissingError(f"no network: {self._lost[0]}")

    def _sdist(self, web: Web, artifact: Artifact) -> None:
        kept = self._sdists / artifact.sha256 if self._sdists and artifact.sha256.isalnum() else None
        try:
            if kept is not None:
                self.read.sdists[artifact.filename] = msgspec.msgpack.decode(kept.read_bytes(), type=SdistFacts)
                return
        except (OSError, msgspec.DecodeError):
            pass
        self._ask(artifact)
        if not 0 < artifact.size <= MAX_SDIST_BYTES:
            raise MissingError(
                f"its size is {artifact.size or 'not stated'}: source archives of 64 MB at most are read"
            )
        data = web.part(artifact.url, 0, artifact.size).data
        if artifact.sha256 and hashlib.sha256(data).hexdigest() != artifact.sha256:
            raise InputError(f"{artifact.filename}: the server's file is not the lock's (sha256)")
        found = read_sdist(data, artifact.filename)
        self.read.sdists[artifact.filename] = found
        if kept is not None:
            with contextlib.suppress(OSError):
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_bytes(encode(found))


def lock_environment(packages: Sequence[Package], wheels: Mapping[str, WheelMetadata], profile: Profile) -> Environment:
    """The wheels as if they were installed together; packages without a read wheel are there by name and version."""
    major, _, minor = profile.python.partition(".")
    python = (int(major), int(minor))
    layout = Layout(Path("/"), f"lib/python{profile.python}/site-packages", python, "")
    found = []
    known = set()
    for package in packages:
        file = package.wheel.filename if package.wheel else ""
        if file in wheels:
            found.append(metadata_facts(file, wheels[file], layout))
            known.add(package.name)
    named = tuple(_named(package, layout) for package in packages if package.name not in known)
    found.sort(key=lambda facts: (facts.dist.name, facts.dist.folder))
    dists = sorted((*(facts.dist for facts in found), *named), key=lambda dist: (dist.name, dist.folder))
    return combine(layout, found, tuple(dists), {}, profile)


def _named(package: Package, layout: Layout) -> Distribution:
    folder = join(layout.site, f"{package.name.replace('-', '_')}-{package.version}.dist-info")
    return Distribution(package.name, package.version, folder, (), (), (), "", site=layout.site)


def one_of_each(packages: Sequence[Package]) -> tuple[tuple[Package, ...], dict[str, tuple[str, ...]]]:
    """(one version of every package, the others by name): a lock with forks has several, an environment has one."""
    by_name: dict[str, list[Package]] = defaultdict(list)
    for package in packages:
        by_name[package.name].append(package)
    others = {name: tuple(p.version for p in found[:-1]) for name, found in by_name.items() if len(found) > 1}
    return tuple(found[-1] for found in by_name.values()), others
