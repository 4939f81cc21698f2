"""Which Python environments an image holds, and which of them it is about."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from orbit.audit.facts import Layout, SharedObject, Tree, join
from orbit.audit.installed.tree import resolve
from orbit.errors import InputError

SITE = re.compile(r"^(?:(?P<home>.+)/)?lib(?:64)?/python(?P<version>3(?:\.\d{1,3})?)/(?:site|dist)-packages$")
CACHE = re.compile(r"(^|/)(pkgs|archive-v\d+|__pycache__)/")
"""Folders of package caches (conda, uv), which hold packages in the shape of environments."""
METADATA = (".dist-info", ".egg-info")
PREFIX_VARIABLES = ("ORBIT_PREFIX", "VIRTUAL_ENV", "CONDA_PREFIX")
PROGRAM = re.compile(r"python3\.(\d{1,3})$")


def image_layout(
    tree: Tree,
    objects: Sequence[SharedObject],
    variables: Mapping[str, str],
    texts: Mapping[str, bytes],
    default_python: str,
) -> Layout:
    """The layout of an image: its site-packages folders, the main one first.

    The main one is that of the folder which the image's variables name; else the one with the most device code; else
    the one whose programs come first on PATH. Raises :class:`InputError` when nothing is installed in the image.
    """
    installed = Counter(path.rpartition("/")[0] for path in tree.entries if path.endswith(METADATA))
    sites = [path for path in installed if SITE.match(path) and not CACHE.search(path) and not _inside(path, installed)]
    if not sites:
        raise InputError(
            "no installed Python distribution in the image: no site-packages with *.dist-info",
            fix="give an image with a Python environment in it",
        )
    device = {
        site: sum(
            image.size
            for item in objects
            if item.path.startswith(f"{site}/")
            for container in item.containers
            for image in container.images
        )
        for site in sites
    }
    named = _named(tree, variables)
    order = _on_path(tree, variables)

    def rank(site: str) -> tuple[int, int, int, int, str]:
        home = home_of(site)
        first = named.index(home) if home in named else len(named)
        place = order.index(home) if home in order else len(order)
        return first, -device[site], place, -installed[site], site

    main, *others = sorted(sites, key=rank)
    home = home_of(main)
    return Layout(
        prefix=Path("/"),
        site=main,
        python=_python(tree, main, default_python),
        base_interpreter=_base(texts.get(join(home, "pyvenv.cfg"), b"")),
        others=tuple(others),
        home=home,
    )


def home_of(site: str) -> str:
    """The folder that has ``bin`` and ``lib``, of a site-packages folder."""
    match = SITE.match(site)
    return (match["home"] or "") if match else ""


def _inside(path: str, sites: Mapping[str, int]) -> bool:
    """Whether a site-packages folder lies in another one: something vendored."""
    folder = path.rpartition("/")[0]
    while folder:
        if folder in sites and SITE.match(folder):
            return True
        folder = folder.rpartition("/")[0]
    return False


def _named(tree: Tree, variables: Mapping[str, str]) -> list[str]:
    values = [variables.get(name, "") for name in PREFIX_VARIABLES]
    return [found for value in values if value.startswith("/") and (found := resolve(tree, value)) is not None]


def _on_path(tree: Tree, variables: Mapping[str, str]) -> list[str]:
    """The folders whose ``bin`` is on PATH, in order."""
    found = []
    for entry in variables.get("PATH", "").split(":"):
        real = resolve(tree, entry) if entry.startswith("/") else None
        if real is not None and posixpath.basename(real) == "bin":
            found.append(posixpath.dirname(real))
    return found


def _python(tree: Tree, site: str, default: str) -> tuple[int, int]:
    """The CPython version of a site-packages folder; Debian's ``python3/dist-packages`` is of the python3 beside it."""
    match = SITE.match(site)
    version = match["version"] if match else ""
    if "." not in version:
        home = home_of(site)
        program = resolve(tree, join(home, "bin/python3")) or ""
        found = PROGRAM.search(program)
        version = f"3.{found[1]}" if found else default
    major, _, minor = version.partition(".")
    return int(major), int(minor)


def _base(text: bytes) -> str:
    for line in text.decode("utf-8", "replace").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "home":
            return value.strip()
    return ""
