"""Which file of an environment goes into which layer: by owner, so that a change moves one layer and not all.

The owner of a file is the distribution whose RECORD lists it; a compiled file belongs to its source, a folder of
``.dist-info`` to its distribution, and the CUDA_HOME link farm to the layer of the CUDA wheels it points into. What
nobody lists is ``interpreter`` outside site-packages and ``stack`` inside.
"""

from __future__ import annotations

import csv
import fnmatch
import io
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from orbit.errors import InputError
from orbit.image.tar import Member, folder
from orbit.profile.model import Layer

INTERPRETER = "interpreter"
STACK = "stack"
CUDA = "cuda"
SITE = "lib/python3.12/site-packages"
FARM = "cuda/"
COMPILED = re.compile(r"^(.*/)?__pycache__/([^/]+)\.cpython-\d+(\.opt-\d)?\.pyc$")


def layer_names(layers: Sequence[Layer]) -> tuple[str, ...]:
    """Names of an environment's layers, bottom first: ``interpreter``, the profile's, ``stack`` last if unnamed."""
    names = [INTERPRETER, *(layer.name for layer in layers)]
    return tuple(names if STACK in names else [*names, STACK])


def plan_layers(prefix: Path, layers: Sequence[Layer], at: str) -> dict[str, list[Member]]:
    """Members of every layer of the environment at ``prefix``, named as they lie below ``at`` in the image.

    Every file and link of the tree is in exactly one layer; folders are not listed (the tar stream adds the parents),
    except empty ones. Raises :class:`InputError` for what an image must not hold: links out of the tree, sockets,
    devices.
    """
    owners = owner_table(prefix, layers)
    names = layer_names(layers)
    plan: dict[str, list[Member]] = {name: [] for name in names}
    farm = CUDA if CUDA in names else INTERPRETER
    base = at.strip("/")
    for relative, member in walk(prefix, base):
        plan[_layer_of(relative, owners, farm)].append(member)
    return plan


def owner_table(prefix: Path, layers: Sequence[Layer]) -> dict[str, str]:
    """Path relative to the prefix -> layer, for every file a RECORD lists. The lowest layer wins a contested file."""
    names = layer_names(layers)
    rank = {name: position for position, name in enumerate(names)}
    owners: dict[str, str] = {}
    for info in sorted((prefix / SITE).glob("*.dist-info")):
        layer = layer_of_dist(info.name.split("-")[0], layers)
        for path in recorded_files(info):
            if path not in owners or rank[layer] < rank[owners[path]]:
                owners[path] = layer
    return owners


def layer_of_dist(name: str, layers: Sequence[Layer]) -> str:
    """The first layer with a pattern that matches the normalised distribution name; ``stack`` when none does."""
    normal = re.sub(r"[-_.]+", "-", name).lower()
    for layer in layers:
        if any(fnmatch.fnmatchcase(normal, pattern) for pattern in layer.dists):
            return layer.name
    return STACK


def recorded_files(info: Path) -> Iterator[str]:
    """Paths a ``.dist-info/RECORD`` lists, relative to the prefix. An installation without RECORD is an error."""
    record = info / "RECORD"
    try:
        text = record.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(
            f"{info}: no RECORD, so nobody knows which files are its", fix="create the environment again"
        ) from None
    for row in csv.reader(io.StringIO(text)):
        if row:
            yield os.path.normpath(f"{SITE}/{row[0]}")


def _layer_of(relative: str, owners: dict[str, str], farm: str) -> str:
    if owner := owners.get(relative):
        return owner
    if match := COMPILED.match(relative):
        source = f"{match[1] or ''}{match[2]}.py"
        if owner := owners.get(source):
            return owner
    if relative.startswith(FARM):
        return farm
    return STACK if relative.startswith(f"{SITE}/") else INTERPRETER


def walk(root: Path, at: str) -> Iterator[tuple[str, Member]]:
    """(relative path, member) of every file, link and empty folder below ``root``; ``at`` is put before the names.

    Modes are 0755 for folders and for files their owner may execute, 0644 for other files: readable by any uid.
    """
    pending: list[str] = [""]
    while pending:
        here = pending.pop()
        entries = sorted(os.scandir(root / here), key=lambda entry: entry.name)
        if not entries and here:
            yield here, folder(f"{at}/{here}")
        for entry in entries:
            relative = f"{here}/{entry.name}" if here else entry.name
            if entry.is_dir(follow_symlinks=False):
                pending.append(relative)
            else:
                yield relative, _member(root, relative, entry, at)


def _member(root: Path, relative: str, entry: os.DirEntry[str], at: str) -> Member:
    name = f"{at}/{relative}"
    if entry.is_symlink():
        target = os.readlink(entry.path)
        if escapes(relative, target):
            raise InputError(
                f"{entry.path}: links to {target}, outside the environment",
                fix="an image holds the files themselves: create the environment again",
            )
        return Member(name, "symlink", 0o777, target=target)
    state = entry.stat(follow_symlinks=False)
    if not stat.S_ISREG(state.st_mode):
        raise InputError(f"{entry.path}: neither file, folder nor link", fix="remove it from the environment")
    mode = 0o755 if state.st_mode & 0o100 else 0o644
    return Member(name, "file", mode, size=state.st_size, source=root / relative)


def escapes(relative: str, target: str) -> bool:
    """Whether a link at ``relative`` (to the tree's root) with ``target`` leads out of the tree."""
    if target.startswith("/"):
        return True
    place = os.path.normpath(PurePosixPath(relative).parent / target)
    return place == ".." or place.startswith("../")


def content_bytes(members: Iterable[Member]) -> int:
    """Bytes of file content of ``members``."""
    return sum(member.size for member in members)
