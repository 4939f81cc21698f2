"""Read a lock of any of the formats that people have into one shape: uv.lock, pylock.toml (PEP 751), requirements.txt.

Only what an audit needs is kept. A uv.lock gives the resolution for the platform of images; the two other formats list
what is to be installed, with markers that are evaluated for the same platform.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from orbit.core.files import read_file
from orbit.core.records import parse_toml
from orbit.errors import InputError, MissingError
from orbit.profile.lock import Artifact, Lock, Package, Source, read_tables
from orbit.profile.platform import marker_holds

type Format = Literal["uv", "pylock", "requirements"]

MAX_BYTES = 64 << 20
LOCAL = ("editable", "virtual", "directory", "path")
HASH = re.compile(r"--hash[= ]sha256:([0-9a-fA-F]{64})")
OPTION = re.compile(r"^(-[a-zA-Z]\b|--[a-z-]+)")
COMMENT = re.compile(r"(^|\s)#.*$")


@dataclass(frozen=True, slots=True)
class Listed:
    """What a lock installs on the platform of images."""

    path: Path
    format: Format
    sha256: str
    """Of the file."""
    packages: tuple[Package, ...]
    """In order of name, without the project itself."""
    unpinned: tuple[str, ...] = ()
    """Lines that name no one version."""
    unhashed: tuple[str, ...] = ()
    """Requirements of a requirements.txt without ``--hash``."""
    options: tuple[str, ...] = ()
    """Options of a requirements.txt that change where packages come from."""
    lock: Lock | None = None
    """The whole resolution, of a uv.lock."""


def read_listed(path: Path, extras: Sequence[str]) -> Listed:
    """Read the lock at ``path``; ``extras`` are taken where the lock's project has them.

    Raises :class:`MissingError` without a file and :class:`InputError` when it is no lock that can be read.
    """
    try:
        data = read_file(path, MAX_BYTES)
    except FileNotFoundError:
        raise MissingError(f"{path}: no such file", fix="give a uv.lock, pylock.toml or requirements.txt") from None
    if path.suffix == ".txt":
        return read_requirements(data, path)
    tables = parse_toml(data, path, fix="make the lock anew")
    if "lock-version" in tables:
        return read_pylock(tables, data, path)
    lock = read_tables(tables, data, path)
    return Listed(path, "uv", lock.sha256, _closure(lock, extras), lock=lock)


def _closure(lock: Lock, extras: Sequence[str]) -> tuple[Package, ...]:
    """What is installed: of the project at ``.`` with those of ``extras`` that it has, else of all local projects."""
    roots = [package for package in lock.packages if package.source.kind in ("editable", "virtual")]
    main = next((package for package in roots if package.source.url == "."), None)
    if main is not None and _is_project(main):
        found = lock.closure([extra for extra in extras if extra in main.optional_dependencies])
    else:
        found = _from(lock, roots) if roots else lock.packages
    return tuple(sorted((p for p in found if p.source.kind not in LOCAL), key=lambda p: (p.name, p.version)))


def _is_project(package: Package) -> bool:
    return bool(package.dependencies or package.optional_dependencies)


def _from(lock: Lock, roots: Iterable[Package]) -> tuple[Package, ...]:
    """Everything that the projects of a workspace reach with all their extras."""
    queue = [(root, extra) for root in roots for extra in ("", *root.optional_dependencies)]
    seen = {(package.name, package.version, extra) for package, extra in queue}
    found: dict[tuple[str, str], Package] = {}
    for package, extra in queue:
        found[package.name, package.version] = package
        for target, wanted in lock.targets(package, extra):
            for part in wanted:
                key = (target.name, target.version, part)
                if key not in seen:
                    seen.add(key)
                    queue.append((target, part))
    return tuple(found.values())


class _File(msgspec.Struct):
    url: str = ""
    path: str = ""
    name: str = ""
    size: int = 0
    hashes: dict[str, str] = {}

    def artifact(self) -> Artifact:
        """The file as a lock of uv has it."""
        url = self.url or self.path
        name = self.name or unquote(urlsplit(url).path.rpartition("/")[2])
        return Artifact(url=url, filename=name, sha256=self.hashes.get("sha256", ""), size=self.size)


class _Vcs(msgspec.Struct, rename="kebab"):
    type: str = ""
    url: str = ""
    path: str = ""
    commit_id: str = ""


class _Listed(msgspec.Struct, rename="kebab"):
    name: str
    version: str = ""
    marker: str = ""
    index: str = ""
    vcs: _Vcs | None = None
    directory: dict[str, Any] | None = None
    archive: _File | None = None
    sdist: _File | None = None
    wheels: list[_File] = []


class _Pylock(msgspec.Struct, rename="kebab"):
    lock_version: str
    packages: list[_Listed] = []


def read_pylock(tables: dict[str, Any], data: bytes, path: Path) -> Listed:
    """The tables of a pylock.toml. Raises :class:`InputError` when they are none."""
    try:
        raw = msgspec.convert(tables, _Pylock)
        if raw.lock_version.partition(".")[0] != "1":
            raise InputError(f"{path}: lock-version {raw.lock_version!r} is not known", fix="this orbit reads 1.x")
        packages = tuple(_pylock_package(item) for item in raw.packages if not item.marker or _holds(item.marker, path))
    except (msgspec.ValidationError, ValueError) as error:
        raise InputError(f"{path}: not a pylock.toml: {error}", fix="make it anew (uv export, pip lock)") from None
    found = tuple(package for package in packages if package.source.kind not in LOCAL)
    return Listed(path, "pylock", hashlib.sha256(data).hexdigest(), tuple(sorted(found, key=lambda p: p.name)))


def _holds(marker: str, path: Path) -> bool:
    """Whether a marker is true; those about extras and groups (PEP 751 lets a lock have them) count as chosen."""
    return "extras" in marker or "dependency_groups" in marker or marker_holds(marker, path)


def _pylock_package(raw: _Listed) -> Package:
    if raw.vcs is not None:
        source = Source(kind="git", url=f"{raw.vcs.url or raw.vcs.path}#{raw.vcs.commit_id}")
    elif raw.directory is not None:
        source = Source(kind="directory", url=str(raw.directory.get("path", "")))
    elif raw.archive is not None:
        source = Source(kind="url", url=raw.archive.url or raw.archive.path)
    else:
        source = Source(kind="registry", url=raw.index)
    archive = raw.archive.artifact() if raw.archive else None
    is_wheel = archive is not None and archive.filename.endswith(".whl")
    sdist = archive if archive and not is_wheel else raw.sdist.artifact() if raw.sdist else None
    wheels = (archive,) if archive and is_wheel else tuple(wheel.artifact() for wheel in raw.wheels)
    return Package(name=canonicalize_name(raw.name), version=raw.version, source=source, sdist=sdist, wheels=wheels)


def read_requirements(data: bytes, path: Path) -> Listed:
    """The lines of a requirements.txt. Raises :class:`InputError` when it is no text or holds no requirement."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text: {error}", fix="give a requirements file") from None
    packages: list[Package] = []
    unpinned: list[str] = []
    unhashed: list[str] = []
    options: list[str] = []
    for line in _logical_lines(text):
        if OPTION.match(line):
            options.append(line)
            continue
        package = _requirement(line, path)
        if package is None:
            unpinned.append(_short(line))
        elif package.version or package.source.kind != "registry":
            packages.append(package)
            if not HASH.search(line) and package.source.kind != "git":
                unhashed.append(_short(line))
    if not packages and not unpinned:
        raise InputError(f"{path}: no requirement in it", fix="give a file with pinned requirements")
    return Listed(
        path,
        "requirements",
        hashlib.sha256(data).hexdigest(),
        tuple(sorted(packages, key=lambda package: package.name)),
        tuple(unpinned),
        tuple(unhashed),
        tuple(options),
    )


def _logical_lines(text: str) -> Iterator[str]:
    for line in text.replace("\r\n", "\n").replace("\\\n", " ").split("\n"):
        if plain := COMMENT.sub("", line).strip():
            yield plain


def _requirement(line: str, path: Path) -> Package | None:
    """One requirement; None when it names no one version; without a version when its marker is false."""
    spec = re.split(r"\s--(?:hash|config-settings?|global-option)", line)[0].strip()
    try:
        parsed = Requirement(spec)
    except InvalidRequirement:
        return None
    name = canonicalize_name(parsed.name)
    if parsed.marker is not None and not marker_holds(str(parsed.marker), path):
        return Package(name=name, version="", source=Source(kind="registry", url=""))
    if parsed.url:
        kind = "git" if parsed.url.startswith("git+") else "url"
        return Package(name=name, version="", source=_url_source(kind, parsed.url))
    pins = [part.version for part in parsed.specifier if part.operator in ("==", "===") and "*" not in part.version]
    if not pins:
        return None
    wheels = tuple(
        Artifact(url="", filename="", sha256=digest.lower(), size=0) for digest in dict.fromkeys(HASH.findall(line))
    )
    return Package(name=name, version=pins[0], source=Source(kind="registry", url=""), wheels=wheels)


def _url_source(kind: str, url: str) -> Source:
    """``git+https://host/x.git@commit`` in the lock's spelling (``url#commit``); other URLs as they are."""
    plain = url.removeprefix("git+").partition("#")[0]
    if kind != "git":
        return Source(kind=kind, url=plain)
    repository, at, revision = plain.rpartition("@")
    fixed = at and "/" not in revision
    return Source(kind=kind, url=f"{repository if fixed else plain}#{revision if fixed else ''}")


def _short(line: str) -> str:
    return re.split(r"\s--hash", line)[0].strip()[:200]
