"""Which file of an environment goes into which layer: by owner, so that a change moves one layer and not all.

The owner of a file is the distribution whose RECORD lists it; a compiled file belongs to its source, a folder of
``.dist-info`` to its distribution, and the CUDA_HOME link farm to the layer of the CUDA wheels it points into. What
nobody lists is ``interpreter`` outside site-packages and ``stack`` inside. The environment's own record changes with
every pin and has a layer of its own.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from orbit.audit.facts import FileFact, Tree
from orbit.env.installed import read_installed
from orbit.env.record import RECORD_PATH
from orbit.errors import InputError
from orbit.image.tar import Member, folder
from orbit.profile.model import Layer

INTERPRETER = "interpreter"
STACK = "stack"
CUDA = "cuda"
ENVIRONMENT = "environment"
SITE = "lib/python3.12/site-packages"
FARM = "cuda/"
COMPILED = re.compile(r"^(.*/)?__pycache__/([^/]+)\.cpython-\d+(\.opt-\d)?\.pyc$")
SHA256 = re.compile(r"sha256=([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class Stated:
    """What a RECORD says of one file."""

    sha256: str
    """Urlsafe base64 without padding."""
    size: int


@dataclass(frozen=True, slots=True)
class Owners:
    """What the RECORDs of an environment say, by path relative to its prefix."""

    layer: Mapping[str, str]
    stated: Mapping[str, Stated]
    """Only files with sha256 and size."""
    disputed: Set[str]
    """Files about which two RECORDs disagree: neither is believed."""


def layer_names(layers: Sequence[Layer]) -> tuple[str, ...]:
    """Names of an environment's layers, bottom first: ``interpreter``, the profile's, ``stack`` if unnamed, the record.

    Raises :class:`InputError` when two have one name.
    """
    names = [INTERPRETER, *(name for layer in layers for name in group_names(layer))]
    if all(layer.name != STACK for layer in layers):
        names.append(STACK)
    names.append(ENVIRONMENT)
    twice = sorted({name for name in names if names.count(name) > 1} | ({"base", "orbit"} & set(names)))
    if twice:
        raise InputError(f"image.layers: {', '.join(twice)}: the name of another layer", fix="choose another name")
    return tuple(names)


def group_names(layer: Layer) -> tuple[str, ...]:
    """The layers that one table of a profile stands for."""
    return (layer.name,) if layer.groups == 1 else tuple(f"{layer.name}-{number}" for number in range(layer.groups))


def layer_of_dist(name: str, layers: Sequence[Layer]) -> str:
    """The first layer with a pattern that matches the normalised distribution name; ``stack`` when none does."""
    normal = re.sub(r"[-_.]+", "-", name).lower()
    for layer in layers:
        if any(fnmatch.fnmatchcase(normal, pattern) for pattern in layer.dists):
            names = group_names(layer)
            return names[int.from_bytes(hashlib.sha256(normal.encode()).digest()[:8]) % len(names)]
    return STACK


def read_owners(prefix: Path, layers: Sequence[Layer]) -> Owners:
    """Layer and stated content of every file a RECORD lists. The lowest layer wins a contested file.

    Raises :class:`InputError` for an installation without RECORD: nobody would know which files are its.
    """
    rank = {name: position for position, name in enumerate(layer_names(layers))}
    owners: dict[str, str] = {}
    stated: dict[str, Stated] = {}
    disputed: set[str] = set()
    for dist in read_installed(prefix / SITE):
        layer = layer_of_dist(dist.name, layers)
        for line in dist.lines:
            path = os.path.normpath(f"{SITE}/{line.path}")
            if path not in owners or rank[layer] < rank[owners[path]]:
                owners[path] = layer
            match = SHA256.fullmatch(line.digest)
            if match and line.size.isdecimal():
                said = Stated(match[1], int(line.size))
                if stated.setdefault(path, said) != said:
                    disputed.add(path)
    return Owners(owners, stated, disputed)


def split(tree: Tree, owners: Owners, layers: Sequence[Layer]) -> dict[str, list[str]]:
    """Paths of every layer of the environment listed in ``tree``: each file and link once, and empty folders.

    Other folders are not listed (the tar stream adds the parents). Raises :class:`InputError` for what an image must
    not hold: links out of the tree, sockets, devices, folders that cannot be read, names that are no text.
    """
    names = layer_names(layers)
    plan: dict[str, list[str]] = {name: [] for name in names}
    farm = CUDA if CUDA in names else INTERPRETER
    rest = next((group_names(layer)[0] for layer in layers if layer.name == STACK), STACK)
    for path in _wanted(tree):
        plan[_layer_of(path, owners.layer, farm=farm, rest=rest)].append(path)
    return plan


def _layer_of(path: str, owners: Mapping[str, str], *, farm: str, rest: str) -> str:
    if owner := owners.get(path):
        return owner
    if match := COMPILED.match(path):
        source = f"{match[1] or ''}{match[2]}.py"
        if owner := owners.get(source):
            return owner
    if path == RECORD_PATH:
        return ENVIRONMENT
    if path.startswith(FARM):
        return farm
    return rest if path.startswith(f"{SITE}/") else INTERPRETER


def _wanted(tree: Tree) -> Iterator[str]:
    """Files, links and empty folders of ``tree``, checked."""
    root = tree.roots[0]
    if tree.denied:
        raise InputError(f"{root}/{tree.denied[0]}: cannot be listed", fix="make it readable for who builds the image")
    full = {path.rpartition("/")[0] for path in tree.entries if path}
    for path, fact in tree.entries.items():
        if fact.is_folder:
            if path and path not in full:
                yield path
            continue
        if fact.is_link:
            if escapes(path, tree.links[path]):
                raise InputError(
                    f"{root}/{path}: links to {tree.links[path]}, outside the environment",
                    fix="an image holds the files themselves: create the environment again",
                )
        elif not fact.is_file:
            raise InputError(f"{root}/{path}: neither file, folder nor link", fix="remove it from the environment")
        yield path


def member(path: str, fact: FileFact, tree: Tree, at: str, *, sha256: str = "", proved: bool = False) -> Member:
    """The member for one path, named as it lies below ``at`` in the image.

    Modes are 0755 for folders and for files their owner may execute, 0644 for other files: readable by any uid.
    """
    name = f"{at.strip('/')}/{path}"
    if fact.is_folder:
        return folder(name)
    if fact.is_link:
        return Member(name, "symlink", 0o777, target=tree.links[path])
    return Member(
        name,
        "file",
        0o755 if fact.mode & 0o100 else 0o644,
        size=fact.size,
        source=Path(f"{tree.roots[0]}/{path}"),
        stamp=fact.stamp,
        sha256=sha256,
        proved=proved,
    )


def escapes(relative: str, target: str) -> bool:
    """Whether a link at ``relative`` (to the tree's root) with ``target`` leads out of the tree."""
    if target.startswith("/"):
        return True
    place = os.path.normpath(PurePosixPath(relative).parent / target)
    return place == ".." or place.startswith("../")
