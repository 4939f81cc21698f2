"""The data of the treemap: layer, owner, kind (and architecture), file; every level adds up to the one above."""

from __future__ import annotations

from collections import defaultdict

from orbit.audit.facts import printable
from orbit.audit.reports.view import plural, visible
from orbit.image.inspect.kinds import DEVICE, KINDS
from orbit.image.inspect.owners import DEBIAN
from orbit.image.inspect.records import Contents
from orbit.image.inspect.weigh import Cell, CellKey, Weighed

FILE_BYTES = 1 << 14
"""Smaller files have no box of their own."""
CELL_FILES = 16

type Node = list[object]
"""``[name, style, disk bytes, pull bytes, files, children]``; style: a key of KINDS, ``unused``, or empty for what
holds several kinds."""


def tree_of(found: Weighed, contents: Contents, name: str) -> dict[str, object]:
    """The whole tree with what its script needs to know."""
    unused = {row.arch for row in contents.architectures if not (row.sass or row.jit)} if contents.targets else set()
    layers: dict[int, dict[str, list[Node]]] = defaultdict(lambda: defaultdict(list))
    for key, cell in found.cells.items():
        title = f"{key.owner.title} (Debian)" if key.owner.kind == DEBIAN else key.owner.title
        layers[key.layer][title].append(_cell(key, cell, unused=printable(key.arch) in unused))
    nodes = [
        _group(found.titles[number], [_group(title, cells) for title, cells in owners.items()])
        for number, owners in sorted(layers.items())
    ]
    return {"measured": found.measured, "root": _group(name, nodes)}


def _group(name: str, children: list[Node]) -> Node:
    return [visible(name), "", *(sum(_number(child[place]) for child in children) for place in (2, 3, 4)), children]


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value


def _cell(key: CellKey, cell: Cell, *, unused: bool) -> Node:
    style = "unused" if unused else key.kind
    name = f"{printable(key.arch)} {KINDS[key.kind]}" if key.kind == DEVICE else KINDS[key.kind]
    named = [part for part in sorted(cell.largest, reverse=True)[:CELL_FILES] if part.disk >= FILE_BYTES]
    files: list[Node] = [[visible(printable(part.path)), style, part.disk, part.pull or 0, 1, []] for part in named]
    rest = cell.files - len(named)
    if files and rest:
        disk = cell.disk - sum(part.disk for part in named)
        pull = cell.pull - sum(part.pull or 0 for part in named)
        files.append([plural(rest, "smaller file"), style, disk, pull, rest, []])
    return [visible(name), style, cell.disk, cell.pull, cell.files, files]
