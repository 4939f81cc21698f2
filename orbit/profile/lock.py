"""The lock: a typed reader of ``uv.lock`` and what it installs on the one platform images are made for.

The reader takes format version 1 of uv's lock (see "Lockfile" in uv's documentation). Unknown keys are fine, because uv
adds some with every revision; an unknown *version* is not, because then the meaning of the known keys may have changed.

What is installed is worked out for the platform of :mod:`orbit.profile.platform`, whatever machine runs this code.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from orbit.core.files import read_file
from orbit.core.records import MAX_BYTES, Record, parse_toml
from orbit.errors import InputError, MissingError
from orbit.profile.platform import marker_holds, wheel_rank

VERSION = 1
"""The only format version of uv.lock this reader understands."""
EXTRA_MARKER = re.compile(r"""extra == ['"]([^'"]+)['"]""")


class Source(Record, frozen=True, kw_only=True):
    """Where a package comes from."""

    kind: str
    """``registry``, ``git``, ``url``, ``path``, ``directory``, ``editable`` or ``virtual``."""
    url: str
    """As the lock spells it: index URL, git URL with its query and ``#commit``, or a path."""

    @property
    def commit(self) -> str:
        """The exact git commit; empty for every other kind."""
        return self.url.partition("#")[2] if self.kind == "git" else ""

    @property
    def repository(self) -> str:
        """The git URL without query and commit; for other kinds the URL itself."""
        return re.split(r"[?#]", self.url)[0] if self.kind == "git" else self.url


class Artifact(Record, frozen=True, kw_only=True):
    """One file of a package: an sdist or a wheel."""

    url: str
    filename: str
    sha256: str
    """Hex digest; empty when the lock has none (or one of another algorithm)."""
    size: int
    """Bytes; 0 when the lock does not say."""


class Dependency(Record, frozen=True, kw_only=True):
    """An edge of the resolution."""

    name: str
    version: str = ""
    """Set only when the lock has several versions of that package."""
    extras: tuple[str, ...] = ()
    marker: str = ""


class Requirement(Record, frozen=True, kw_only=True):
    """What a local project's pyproject.toml asks for, as recorded in the lock."""

    name: str
    specifier: str = ""
    extra: str = ""
    """The extra of the project that asks for it; empty for its own dependencies."""
    group: str = ""
    """The dependency group that asks for it."""
    extras: tuple[str, ...] = ()
    """Extras of the required package."""


class Package(Record, frozen=True, kw_only=True, dict=True):
    """One locked package."""

    name: str
    version: str
    source: Source
    dependencies: tuple[Dependency, ...] = ()
    optional_dependencies: dict[str, tuple[Dependency, ...]] = {}
    """By extra."""
    dev_dependencies: dict[str, tuple[Dependency, ...]] = {}
    """By dependency group; only the project's own package has them."""
    requires: tuple[Requirement, ...] = ()
    """The declared requirements of a local project: dependencies, extras and groups together."""
    sdist: Artifact | None = None
    wheels: tuple[Artifact, ...] = ()

    @functools.cached_property
    def wheel(self) -> Artifact | None:
        """The wheel uv installs here: usable, with the most specific tag; None when there is none."""
        ranked = ((rank, artifact) for artifact in self.wheels if (rank := wheel_rank(artifact.filename)) is not None)
        return min(ranked, key=lambda pair: pair[0], default=(0, None))[1]

    @property
    def built(self) -> bool:
        """Whether it must be built from source because no published wheel is usable."""
        return self.wheel is None

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """The sdist, if any, and all wheels."""
        return (*((self.sdist,) if self.sdist else ()), *self.wheels)


class Lock(Record, frozen=True, kw_only=True, dict=True):
    """A whole resolution."""

    path: Path
    sha256: str
    """Of the file's bytes: the lock hash of every record and label."""
    requires_python: str
    packages: tuple[Package, ...]
    overrides: dict[str, str] = {}
    """Versions forced by ``[tool.uv] override-dependencies`` when the lock was made: name to specifier."""

    @functools.cached_property
    def _by_name(self) -> dict[str, tuple[Package, ...]]:
        index: dict[str, tuple[Package, ...]] = {}
        for package in self.packages:
            index[package.name] = (*index.get(package.name, ()), package)
        return index

    @functools.cached_property
    def root(self) -> Package:
        """The project's own package."""
        for package in self.packages:
            if package.source.kind in ("editable", "virtual") and package.source.url == ".":
                return package
        raise InputError(f"{self.path}: no package with source '.'", fix="make it anew with `uv lock` in the checkout")

    def find(self, name: str, version: str = "") -> Package | None:
        """The package called ``name`` (any spelling), or None. ``version`` chooses where there are several."""
        for package in self._by_name.get(canonicalize_name(name), ()):
            if version in ("", package.version):
                return package
        return None

    def package(self, name: str) -> Package:
        """The package called ``name``. Raises :class:`InputError` when the lock has none."""
        found = self.find(name)
        if found is None:
            raise InputError(f"{self.path}: no package named {name!r}", fix="`orbit lock explain --all` lists them all")
        return found

    def closure(
        self, extras: Sequence[str] = (), groups: Sequence[str] = (), *, project: bool = True
    ) -> tuple[Package, ...]:
        """Everything installed for the project's own dependencies, these extras and groups; without the project.

        With ``project`` false the groups alone, as ``uv sync --only-group``. Sorted by name. Raises
        :class:`InputError` for an extra or a group that pyproject.toml does not have.
        """
        self._require("extra", extras, self.root.optional_dependencies)
        self._require("dependency group", groups, self.root.dev_dependencies)
        seen: dict[tuple[str, str], set[str]] = {}
        found: dict[tuple[str, str], Package] = {}
        queue: list[tuple[Package, tuple[str, ...]]] = [(self.root, ("", *extras))] if project else []
        for group in groups:
            queue.extend(self._targets(self.root.dev_dependencies[group]))
        while queue:
            package, wanted = queue.pop()
            key = (package.name, package.version)
            found[key] = package
            done = seen.setdefault(key, set())
            for extra in wanted:
                if extra not in done:
                    done.add(extra)
                    queue.extend(self.targets(package, extra))
        return tuple(found[key] for key in sorted(found) if found[key] is not self.root)

    def targets(self, package: Package, extra: str = "") -> list[tuple[Package, tuple[str, ...]]]:
        """What ``package`` itself (or only its ``extra``) requires directly on the target platform.

        Each with the parts wanted of it: ``""`` for the package itself, and extras.
        """
        return self._targets(package.optional_dependencies.get(extra, ()) if extra else package.dependencies)

    def _targets(self, edges: Sequence[Dependency]) -> list[tuple[Package, tuple[str, ...]]]:
        return [
            (self._target(edge), ("", *edge.extras))
            for edge in edges
            if not edge.marker or marker_holds(edge.marker, self.path)
        ]

    def _target(self, edge: Dependency) -> Package:
        found = self.find(edge.name, edge.version)
        if found is None:
            raise InputError(
                f"{self.path}: a dependency on {edge.name} {edge.version} leads nowhere".replace("  ", " "),
                fix="the file was cut or edited by hand: make it anew with `uv lock`",
            )
        return found

    def _require(self, what: str, names: Sequence[str], known: dict[str, tuple[Dependency, ...]]) -> None:
        for name in names:
            if name not in known:
                raise InputError(
                    f"{self.path}: the project has no {what} named {name!r}",
                    fix=f"known: {', '.join(sorted(known)) or 'none'}; correct the profile or run `uv lock`",
                )


class _Artifact(msgspec.Struct):
    url: str = ""
    path: str = ""
    filename: str = ""
    hash: str = ""
    size: int = 0


class _Dependency(msgspec.Struct):
    name: str
    version: str = ""
    extra: list[str] = []
    marker: str = ""


class _Requirement(msgspec.Struct):
    name: str
    specifier: str = ""
    extras: list[str] = []
    marker: str = ""


class _Metadata(msgspec.Struct, rename="kebab"):
    requires_dist: list[_Requirement] = []
    requires_dev: dict[str, list[_Requirement]] = {}

    def declared(self) -> list[_Requirement]:
        return [*self.requires_dist, *(one for group in self.requires_dev.values() for one in group)]


class _Package(msgspec.Struct, rename="kebab"):
    name: str
    source: dict[str, str]
    version: str = ""
    dependencies: list[_Dependency] = []
    optional_dependencies: dict[str, list[_Dependency]] = {}
    dev_dependencies: dict[str, list[_Dependency]] = {}
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    sdist: _Artifact | None = None
    wheels: list[_Artifact] = []


class _Override(msgspec.Struct):
    name: str
    specifier: str = ""


class _Manifest(msgspec.Struct):
    overrides: list[_Override] = []


class _Lock(msgspec.Struct, rename="kebab"):
    requires_python: str
    package: list[_Package]
    manifest: _Manifest = msgspec.field(default_factory=_Manifest)


def read_lock(path: Path) -> Lock:
    """Read ``uv.lock``. Raises :class:`MissingError` without a file, :class:`InputError` when it is not such a lock."""
    try:
        data = read_file(path, MAX_BYTES)
    except FileNotFoundError:
        raise MissingError(
            f"{path}: no such file", fix="run in a checkout of Orbit, or make it with `uv lock`"
        ) from None
    return parse_lock(data, path)


def parse_lock(data: bytes, path: Path) -> Lock:
    """The lock in ``data``; ``path`` names it in errors."""
    return read_tables(parse_toml(data, path, fix="make it anew with `uv lock`"), data, path)


def read_tables(tables: dict[str, Any], data: bytes, path: Path) -> Lock:
    """The lock whose ``tables`` were read of ``data``. Raises :class:`InputError` when they are none."""
    if tables.get("version") != VERSION:
        raise InputError(
            f"{path}: format version {tables.get('version')!r} is not known",
            fix=f"this orbit reads version {VERSION}; use the uv that the lock itself names",
        )
    raw = _convert(tables, path)
    held: list[_Override | _Requirement] = [
        *raw.manifest.overrides,
        *(d for p in raw.package for d in p.metadata.declared()),
    ]
    for specifier in {raw.requires_python, *(entry.specifier for entry in held)}:
        _check_specifier(specifier, path)
    return Lock(
        path=path,
        sha256=hashlib.sha256(data).hexdigest(),
        requires_python=raw.requires_python,
        packages=tuple(_package(package, path) for package in raw.package),
        overrides={override.name: override.specifier for override in raw.manifest.overrides},
    )


def _convert(tables: dict[str, Any], path: Path) -> _Lock:
    try:
        return msgspec.convert(tables, _Lock)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: not a lock of uv: {error}", fix="make it anew with `uv lock`") from None


def _check_specifier(text: str, path: Path) -> None:
    try:
        for part in SpecifierSet(text):
            part.contains("1")  # reads the version in it: one with thousands of digits is none
    except ValueError:
        raise InputError(f"{path}: {text!r} is not a version specifier", fix="make it anew with `uv lock`") from None


def _package(raw: _Package, path: Path) -> Package:
    origin = [(kind, url) for kind, url in raw.source.items() if kind != "subdirectory"]
    if len(origin) != 1:
        raise InputError(f"{path}: package {raw.name}: source {raw.source} is not one place", fix="run `uv lock`")
    kind, url = origin[0]
    return Package(
        name=raw.name,
        version=raw.version,
        source=Source(kind=kind, url=url),
        dependencies=_edges(raw.dependencies),
        optional_dependencies={extra: _edges(edges) for extra, edges in raw.optional_dependencies.items()},
        dev_dependencies={group: _edges(edges) for group, edges in raw.dev_dependencies.items()},
        requires=(
            *(_requirement(declared) for declared in raw.metadata.requires_dist),
            *(_requirement(d, group) for group, declared in raw.metadata.requires_dev.items() for d in declared),
        ),
        sdist=_artifact(raw.sdist) if raw.sdist else None,
        wheels=tuple(_artifact(wheel) for wheel in raw.wheels),
    )


def _requirement(raw: _Requirement, group: str = "") -> Requirement:
    extra = EXTRA_MARKER.search(raw.marker)
    return Requirement(
        name=raw.name,
        specifier=raw.specifier,
        extra=extra[1] if extra else "",
        group=group,
        extras=tuple(raw.extras),
    )


def _edges(raw: list[_Dependency]) -> tuple[Dependency, ...]:
    return tuple(Dependency(name=d.name, version=d.version, extras=tuple(d.extra), marker=d.marker) for d in raw)


def _artifact(raw: _Artifact) -> Artifact:
    url = raw.url or raw.path or raw.filename
    algorithm, _, digest = raw.hash.partition(":")
    return Artifact(
        url=url,
        filename=raw.filename or unquote(re.split(r"[?#]", url)[0].rpartition("/")[2]),
        sha256=digest if algorithm == "sha256" else "",
        size=raw.size,
    )
