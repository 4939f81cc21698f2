"""What a target adds to Python's import path: lines of .pth files, egg-links, editable installs, PYTHONPATH. Pure.

Sources of the rules: the documentation of the standard module ``site`` (.pth), PEP 610 (direct_url.json), setuptools'
development mode (``__editable__`` finders and egg-links).
"""

from __future__ import annotations

import ast
import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple
from urllib.parse import unquote, urlsplit

from orbit.audit.facts import Distribution, Environment, join
from orbit.audit.installed.tree import resolve

type State = Literal["inside", "gone", "outside"]
"""Where a folder is: in the target; nowhere; outside of the target (and there, or nobody looked)."""

MAPPING = re.compile(r"^(?:MAPPING|NAMESPACES)\b[^=\n]*=\s*(\{.*\})\s*$", re.MULTILINE)
MAX_LINES = 1000
"""Lines of one .pth file that are read."""
MAX_ELSEWHERE = 200
"""Folders outside of a target that are looked for."""


class PathLine(NamedTuple):
    """One line of a .pth file that does something."""

    file: str
    """Path of the .pth file."""
    text: str
    code: bool
    """Whether it is executed; otherwise it names a folder for the path."""


class Place(NamedTuple):
    """A folder or module file that an editable install leads to."""

    path: str
    """Absolute."""
    via: str
    """What says so: ``direct_url.json``, or the path of a .pth file, finder or egg-link."""


def path_lines(env: Environment) -> Iterator[PathLine]:
    """Every line of every .pth file in a site-packages folder, as ``site`` reads them."""
    for path, content in sorted(env.texts.items()):
        if path.endswith(".pth") and path.rpartition("/")[0] in env.layout.sites:
            for line in lines_of(content):
                yield PathLine(path, line, line.startswith(("import ", "import\t")))


def lines_of(content: bytes) -> list[str]:
    """The lines of a .pth file that count."""
    lines = content.decode("utf-8-sig", "surrogateescape").split("\n")[:MAX_LINES]
    return [line.rstrip() for line in lines if line.strip() and not line.startswith("#")]


def absolute(env: Environment, folder: str, path: str) -> str:
    """``path`` as written in a file of ``folder`` (relative to the tree's root) as an absolute, plain path."""
    return posixpath.normpath(posixpath.join(str(env.layout.prefix), folder, path))


def within(env: Environment, path: str) -> str | None:
    """An absolute path relative to the tree's root; None when it lies outside."""
    prefix = str(env.layout.prefix)
    if env.tree.rooted or prefix == "/":
        return path.lstrip("/")
    return "" if path == prefix else path[len(prefix) + 1 :] if path.startswith(f"{prefix}/") else None


def state(env: Environment, path: str) -> State:
    """Where an absolute path is."""
    relative = within(env, path)
    if relative is not None:
        return "inside" if resolve(env.tree, relative) is not None else "gone"
    return "outside" if env.elsewhere.get(path, True) else "gone"


def editable_root(dist: Distribution) -> str | None:
    """The folder of an editable install by direct_url.json; None when it is no such install."""
    info = dist.direct_url.get("dir_info")
    url = dist.direct_url.get("url")
    if not isinstance(info, dict) or info.get("editable") is not True or not isinstance(url, str):
        return None
    return local_path(url)


def local_path(url: str) -> str | None:
    """The path of a ``file:`` URL; None for any other."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or "\0" in (path := unquote(parts.path)):
        return None
    return posixpath.normpath(path) if path.startswith("/") else None


def places(env: Environment, dist: Distribution) -> Iterator[Place]:
    """Every folder that the files of an editable install name."""
    root = editable_root(dist)
    if root is not None:
        yield Place(root, "direct_url.json")
    for row in dist.rows:
        content = env.texts.get(row.path) if row.path.endswith((".pth", ".py")) else None
        if content is not None:
            folder = row.path.rpartition("/")[0]
            names = finder_mapping(content).values() if row.path.endswith(".py") else _folders(content)
            for name in names:
                yield Place(absolute(env, folder, name), row.path)


def egg_links(env: Environment) -> Iterator[tuple[str, Place]]:
    """(project, place) of every ``name.egg-link``."""
    for path, content in sorted(env.texts.items()):
        if path.endswith(".egg-link") and (lines := lines_of(content)):
            folder, _, name = path.rpartition("/")
            yield name.removesuffix(".egg-link"), Place(absolute(env, folder, lines[0].strip()), path)


def finder_mapping(content: bytes) -> dict[str, str]:
    """Module name to path, as an ``__editable__`` finder has it; empty when it is not such a file."""
    found: dict[str, str] = {}
    for match in MAPPING.finditer(content.decode("utf-8", "replace")):
        try:
            mapping = ast.literal_eval(match[1])
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):  # TypeError: {{}}, a set of dicts
            continue
        if isinstance(mapping, dict):
            found |= {str(key): value for key, value in mapping.items() if isinstance(value, str) and "\0" not in value}
    return found


def modules_of(env: Environment, dist: Distribution) -> frozenset[str]:
    """Top-level modules that an editable install brings, as far as its metadata tells."""
    listed = env.texts.get(join(dist.folder, "top_level.txt"), b"").decode("utf-8", "replace").split()
    mapped = [
        key.partition(".")[0]
        for row in dist.rows
        if row.path.endswith(".py") and (content := env.texts.get(row.path)) is not None
        for key in finder_mapping(content)
    ]
    return frozenset(name for name in (*listed, *mapped) if name.isidentifier())


def roots(env: Environment) -> list[str]:
    """Folders of the import path that lie in the target, in its order: PYTHONPATH, site-packages, .pth lines."""
    prefix = str(env.layout.prefix)
    entries = env.variables.get("PYTHONPATH", "").split(":")
    found = [within(env, posixpath.normpath(entry)) for entry in entries if entry[:1] == "/" and "\0" not in entry]
    found.append(env.layout.site)
    for line in path_lines(env):
        folder = line.file.rpartition("/")[0]
        if not line.code and folder == env.layout.site and "\0" not in line.text:
            found.append(within(env, posixpath.normpath(posixpath.join(prefix, folder, line.text))))
    return list(dict.fromkeys(path for path in found if path is not None))


def named_elsewhere(env: Environment) -> list[str]:
    """Folders outside of the target that its editable installs and .pth files name."""
    found = [place.path for dist in env.dists for place in places(env, dist)]
    found += [place.path for _name, place in egg_links(env)]
    found += [absolute(env, line.file.rpartition("/")[0], line.text) for line in path_lines(env) if not line.code]
    return [path for path in dict.fromkeys(found) if within(env, path) is None][:MAX_ELSEWHERE]


def look_elsewhere(paths: Iterable[str]) -> dict[str, bool]:
    """Whether each of these absolute paths is there on this machine. Nothing in them is read."""
    found = {}
    for path in paths:
        try:
            found[path] = os.path.lexists(path)
        except (OSError, ValueError):
            found[path] = False
    return found


def _folders(content: bytes) -> list[str]:
    return [line for line in lines_of(content) if not line.startswith(("import ", "import\t")) and "\0" not in line]
