"""Who a file of an image belongs to: a Python distribution, a Debian package, or nobody.

Python distributions say it in their RECORD (PyPA specification "Recording installed projects"), Debian packages in
``/var/lib/dpkg/info/NAME.list`` (dpkg-query(1)); what nobody lists is named after the folder it lies in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from orbit.audit.facts import Distribution, Tree, join, printable
from orbit.audit.images.image_layout import CACHE, SITE, home_of
from orbit.audit.installed.dists import read_dists, read_headers
from orbit.audit.installed.tree import resolve
from orbit.image.layers import COMPILED

PYTHON, DEBIAN, OTHER = "python", "debian", "other"
DPKG = "var/lib/dpkg"
STATUS = f"{DPKG}/status"
INFO = re.compile(rf"^{DPKG}/info/(?P<name>[a-z0-9][a-z0-9+.-]*)(?::[a-z0-9-]+)?\.(?P<what>[a-z0-9]+)$")
INTERPRETER = re.compile(r"^(lib/python3\.\d+/|lib/libpython3|bin/python3?(\.\d+)?$|include/python3)")
DEPTH = 2
"""Folders in the name of what nobody owns."""


class Owner(NamedTuple):
    """Who a file belongs to."""

    kind: str
    """``python``, ``debian`` or ``other``."""
    name: str
    version: str = ""

    @property
    def title(self) -> str:
        """Name and version for people."""
        return f"{self.name} {self.version}".rstrip()


class Owners:
    """The owners of everything in one root file system."""

    def __init__(self, tree: Tree, texts: Mapping[str, bytes]) -> None:
        dists = tuple(_dists(tree, texts))
        self._homes = sorted({home_of(dist.site) for dist in dists}, key=lambda home: (-len(home), home))
        self._sites = sorted({dist.site for dist in dists})
        self._folders = {dist.folder: _python(dist) for dist in dists}
        self._versions = debian_versions(texts.get(STATUS, b""))
        self._files: dict[str, Owner] = {}
        for path, owner in _listed(tree, texts, self._versions):
            self._files.setdefault(path, owner)
        for dist in dists:
            owner = _python(dist)
            for row in dist.rows:
                self._files.setdefault(row.path, owner)

    def of(self, path: str) -> Owner:
        """The owner of ``path``, which need not exist."""
        found = self._files.get(path)
        if found is not None:
            return found
        if (match := COMPILED.match(path)) is not None:
            return self.of(f"{match[1] or ''}{match[2]}.py")
        folder = path.rpartition("/")[0]
        if (found := self._folders.get(folder)) is not None:
            return found
        if (match := INFO.match(path)) is not None:
            return Owner(DEBIAN, match["name"], self._versions.get(match["name"], ""))
        return Owner(OTHER, self._place(path))

    def installed(self) -> Iterator[Owner]:
        """Every distribution and every package."""
        yield from self._folders.values()
        yield from (Owner(DEBIAN, name, version) for name, version in self._versions.items())

    def _place(self, path: str) -> str:
        """What the part of the image is called that ``path`` lies in."""
        for site in self._sites:
            if path.startswith(f"{site}/"):
                return f"in no RECORD (/{printable(site)})"
        for home in self._homes:
            if not home or path.startswith(f"{home}/"):
                below = path[len(home) + 1 :] if home else path
                if INTERPRETER.match(below):
                    return f"CPython (/{printable(home)})"
        folders = path.split("/")[:-1][:DEPTH]
        return "/" + printable("/".join(folders))


def _python(dist: Distribution) -> Owner:
    return Owner(PYTHON, printable(dist.name), printable(dist.version))


def _dists(tree: Tree, texts: Mapping[str, bytes]) -> Iterator[Distribution]:
    """The distributions of every site-packages folder; those that others carry inside them are files like any."""
    folders = []
    for path, fact in tree.entries.items():
        if path.endswith(".dist-info") and fact.is_folder:
            site = path.rpartition("/")[0]
            if SITE.match(site) and not CACHE.search(path):
                folders.append(path)

    def read(path: str) -> bytes | None:
        found = path if path in texts else resolve(tree, path)
        return texts.get(found) if found is not None else None

    return iter(read_dists(folders, read))


def debian_versions(status: bytes) -> dict[str, str]:
    """Version of every installed Debian package by name, from dpkg's status file."""
    found: dict[str, str] = {}
    for paragraph in status.split(b"\n\n"):
        fields = read_headers(paragraph)
        name, state = fields.get("package", [""])[0], fields.get("status", [""])[0]
        if name and state.endswith(" installed"):
            found[printable(name)] = printable(fields.get("version", [""])[0])
    return found


def _listed(tree: Tree, texts: Mapping[str, bytes], versions: Mapping[str, str]) -> Iterator[tuple[str, Owner]]:
    """(path, owner) of every file in the lists of dpkg. Lists name files as packages have them: through the links that
    make ``/lib`` a part of ``/usr``."""
    real: dict[str, str | None] = {}
    for path, text in sorted(texts.items()):
        match = INFO.match(path)
        if match is None or match["what"] != "list":
            continue
        owner = Owner(DEBIAN, match["name"], versions.get(match["name"], ""))
        for line in text.decode("utf-8", "surrogateescape").splitlines():
            folder, _, name = line.strip("/").rpartition("/")
            if folder not in real:
                real[folder] = resolve(tree, folder) if folder else ""
            where = real[folder]
            if where is None or not name:
                continue
            fact = tree.entries.get(whole := join(where, name))
            if fact is not None and not fact.is_folder:
                yield whole, owner
