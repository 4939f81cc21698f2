"""An OCI layout as a root file system on disk, without an engine: what the checks run in when there is no docker.

Each layer is unpacked once into the store, by its diff id (the digest of its tar stream, verified on the way), and an
image is those trees merged by hard links. A second image that shares nine of ten gigabytes unpacks only the rest.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from orbit.core.amounts import format_bytes
from orbit.core.console import Progress
from orbit.core.files import remove_tree, require_free
from orbit.core.records import Record, dump_json, load_json
from orbit.core.store import RECORD_NAME, Entry, EntryRecord, Store
from orbit.errors import InputError
from orbit.image.oci import Layout
from orbit.image.rootfs_layer import LayerTree, unpack_layer

FORMAT = 1
LAYER_KIND = "layer-tree"
ROOT_KIND = "rootfs"
TREE = "tree"
LAYER_FILE = "layer.json"
EXPANSION = 5
"""Unpacked bytes per compressed byte, for layers that do not say their own size."""
KEEP_ROOTS = 2
"""Merged roots kept in the store; layer trees none of them uses are deleted with the older ones."""


class RootTree(Record, frozen=True, kw_only=True):
    """An unpacked image."""

    path: Path
    """The root folder: whatever runs in it must see it read-only, for its files are shared with other images."""
    closed: tuple[str, ...]
    """Paths not every user may read (or, for folders, enter), by their modes in the image."""
    real_owners: bool
    """Whether files belong to the users the image says (unpacked by root), not to whoever unpacked."""


def unpack_image(image: Layout, store: Store, *, progress: Progress) -> RootTree:
    """The root tree of ``image``, from the store when it was unpacked before.

    Raises :class:`InputError` for an unsafe member (see :mod:`orbit.image.rootfs_layer`), :class:`DamagedImage` for
    a damaged or missing layer and :class:`RefusedError` when the disk is too small.
    """
    entries = [_layer(image, index, store, progress) for index in range(len(image.layers))]
    trees = [load_json(entry.path / LAYER_FILE, LayerTree) for entry in entries]
    as_root = os.geteuid() == 0
    inputs = {"format": FORMAT, "layers": [layer.diff_id for layer in image.layers], "as_root": as_root}

    def work(place: Path) -> dict[str, int]:
        progress.step(f"rootfs: joining {len(entries)} layers by hard links")
        root = place / TREE
        root.mkdir(mode=0o755)
        for entry, tree in zip(entries, trees, strict=True):
            apply_layer(entry.path / TREE, tree, root)
        return {"layers": len(entries)}

    merged = store.obtain(ROOT_KIND, inputs, work)
    os.utime(merged.path)
    if not merged.reused:
        prune(store)
    closed = tuple(sorted({path for tree in trees for path in tree.closed}))
    return RootTree(path=merged.path / TREE, closed=closed, real_owners=as_root)


def _layer(image: Layout, index: int, store: Store, progress: Progress) -> Entry:
    layer = image.layers[index]
    as_root = os.geteuid() == 0
    inputs = {"format": FORMAT, "diff_id": layer.diff_id, "as_root": as_root}

    def work(place: Path) -> dict[str, int]:
        blob = image.blob(layer)
        unpacked = layer.size * EXPANSION if layer.tar_bytes is None else layer.tar_bytes
        require_free(store.root, unpacked, f"unpacking layer {index + 1} of {len(image.layers)}")
        progress.step(f"rootfs: unpacking layer {index + 1} of {len(image.layers)} ({format_bytes(layer.size)})")
        tree = unpack_layer(blob, layer, place / TREE, as_root=as_root)
        dump_json(place / LAYER_FILE, tree)
        return {"entries": tree.entries}

    return store.obtain(LAYER_KIND, inputs, work)


def apply_layer(source: Path, layer: LayerTree, root: Path) -> None:
    """Put one unpacked layer over ``root``: its whiteouts first, then its files as hard links.

    What is already there gives way as in an overlay: a file or link replaces anything, a folder keeps the lower
    folder's content but replaces a file or link of that name.
    """
    for name in layer.opaque:
        folder = _inside(root, name)
        if folder is not None and folder.is_dir():
            for child in list(folder.iterdir()):
                remove_tree(child)
    for name in layer.whiteouts:
        parent = _inside(root, os.path.dirname(name))
        if parent is not None:
            remove_tree(parent / os.path.basename(name))
    _merge(source, root)


def _inside(root: Path, name: str) -> Path | None:
    """The folder ``name`` of ``root`` when no component is a link; None when it is not there or reached by a link."""
    here = root
    for part in Path(name).parts:
        here /= part
        if here.is_symlink() or not here.is_dir():
            return None
    return here


def _merge(source: Path, dest: Path) -> None:
    for entry in os.scandir(source):
        target = dest / entry.name
        if entry.is_dir(follow_symlinks=False):
            info = entry.stat(follow_symlinks=False)
            if target.is_symlink() or (target.exists() and not target.is_dir()):
                target.unlink()
            if not target.is_dir():
                target.mkdir()
            _merge(Path(entry.path), target)
            _dress(target, info)
        else:
            if target.is_symlink() or target.exists():
                remove_tree(target)
            os.link(entry.path, target, follow_symlinks=False)


def _dress(folder: Path, info: os.stat_result) -> None:
    if os.geteuid() == 0:
        os.chown(folder, info.st_uid, info.st_gid)
    os.chmod(folder, info.st_mode & 0o7777)


def prune(store: Store, keep: int = KEEP_ROOTS) -> tuple[Path, ...]:
    """Delete all merged roots but the ``keep`` last used, and layer trees no kept root needs; return what went."""
    roots = sorted(_entries(store, ROOT_KIND), key=lambda path: path.stat().st_mtime, reverse=True)
    doomed = list(roots[keep:])
    needed = {diff_id for root in roots[:keep] for diff_id in _inputs(root).get("layers", ())}
    doomed.extend(path for path in _entries(store, LAYER_KIND) if _inputs(path).get("diff_id") not in needed)
    for path in doomed:
        store.discard(path)
    return tuple(doomed)


def _entries(store: Store, kind: str) -> Iterator[Path]:
    folder = store.root / "entries" / kind
    if folder.is_dir():
        yield from (path for path in folder.iterdir() if path.is_dir())


def _inputs(path: Path) -> dict[str, Sequence[str] | str]:
    try:
        return load_json(path / RECORD_NAME, EntryRecord).inputs
    except (InputError, OSError):
        return {}
