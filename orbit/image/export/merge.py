"""The layers of an image as one tar stream of the tree they make together; nothing is unpacked.

Layers are read from the top down, each once: what an upper layer has, removes (whiteouts) or hides (opaque folders,
files in the place of folders) is left out of the lower ones. Rules: OCI image specification, "Layer Filesystem
Changeset". Owners, modes, times, links and extended attributes stay as the layers have them.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NoReturn

from orbit.core.console import BYTES, Progress
from orbit.core.files import CHUNK_BYTES
from orbit.errors import InputError
from orbit.image.blob import verified_tar
from orbit.image.damage import blame
from orbit.image.oci import ImageLayer, Layout
from orbit.image.rootfs_layer import FIX, OPAQUE, WHITEOUT, as_file
from orbit.image.tar import BLOCK, EPOCH_S

XATTR = "SCHILY.xattr."
"""How extended attributes are named in pax headers (star(5))."""


class _Above:
    """What the layers above one make of its paths."""

    def __init__(self) -> None:
        self.taken: set[str] = set()
        """Paths with something that is no folder, or removed: nothing at or below them shows."""
        self.folders: set[str] = set()
        """Paths that are folders: what is no folder there does not show."""
        self.explicit: set[str] = set()
        """Folders of the tree that were given with owner and mode."""
        self.needed: set[str] = set()
        """Folders above something in the tree."""
        self.opaque: set[str] = set()
        """Folders whose lower content does not show."""

    def shows(self, name: str, *, folder: bool) -> bool:
        """Whether a path of the next lower layer is part of the tree."""
        if name in self.taken or (not folder and name in self.folders):
            return False
        return not any(parent in self.taken or parent in self.opaque for parent in parents(name))

    def add(self, layer: _Seen) -> None:
        """The layer has been read: it is above the next one."""
        self.taken |= layer.others | layer.removed
        self.folders |= layer.folders
        self.opaque |= layer.opaque


class _Seen:
    """The paths of one layer."""

    def __init__(self) -> None:
        self.folders: set[str] = set()
        self.files: dict[str, str] = {}
        """Files and hard links -> the member that has the content."""
        self.others: set[str] = set()
        """Everything that is no folder, files included."""
        self.removed: set[str] = set()
        self.opaque: set[str] = set()
        self.orphans: dict[str, list[tarfile.TarInfo]] = {}
        """Files that do not show -> hard links to them that do."""


def parents(name: str) -> Iterator[str]:
    """The folders above a path, the image's root (the empty path) last."""
    while name:
        name = name.rpartition("/")[0]
        yield name


def merged_tar(image: Layout, progress: Progress) -> Iterator[bytes]:
    """The tar stream of the image's tree, every layer compared with its digest.

    Raises :class:`InputError` for members no tree can have and :class:`DamagedImage` for a damaged layer, both before
    the end of the stream.
    """
    above = _Above()
    done, total = 0, sum(layer.size for layer in image.layers)
    for layer in reversed(image.layers):
        seen = _Seen()
        yield from _layer(image, layer, above, seen)
        above.add(seen)
        done += layer.size
        progress.advance("joining layers", done, total, BYTES)
    for name in sorted(above.needed - above.explicit - {""}):
        yield _header(_plain_folder(name))
    yield bytes(2 * BLOCK)


def _layer(image: Layout, layer: ImageLayer, above: _Above, seen: _Seen) -> Iterator[bytes]:
    for archive, member in _members(image, layer):
        name = _name(member, layer)
        base = name.rpartition("/")[2]
        if base.startswith(WHITEOUT):
            _whiteout(name, seen)
            continue
        if not name:
            continue
        _check(member, name, seen, layer)
        # the folders above a file that is gone stay, as they do where layers are unpacked
        above.needed.update(folder for folder in parents(name) if above.shows(folder, folder=True))
        if not above.shows(name, folder=member.isdir()):
            continue
        if member.isdir():
            if name not in above.explicit:
                above.explicit.add(name)
                yield _header(_changed(member, name))
        elif member.islnk():
            target = seen.files[name]
            if above.shows(target, folder=False):
                yield _header(_changed(member, name, target))
            else:
                seen.orphans.setdefault(target, []).append(_changed(member, name))
        else:
            yield from _whole(archive, member, name)
    if seen.orphans:
        yield from _orphans(image, layer, seen)


def _orphans(image: Layout, layer: ImageLayer, seen: _Seen) -> Iterator[bytes]:
    """Hard links whose file an upper layer has replaced: the first of them becomes the file."""
    for archive, member in _members(image, layer):
        links = seen.orphans.get(_name(member, layer))
        if links and member.isreg():
            yield from _whole(archive, member, links[0].name)
            for link in links[1:]:
                yield _header(_changed(link, link.name, links[0].name))


def _members(image: Layout, layer: ImageLayer) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """The members of a layer as they come."""
    blob = image.blob(layer)
    reader = as_file(verified_tar(blob, layer.codec, layer.diff_id))
    try:
        with tarfile.open(fileobj=reader, mode="r|") as archive:
            while (member := archive.next()) is not None:
                yield archive, member
                # tarfile remembers all; a hundred thousand of them are a hundred megabytes
                archive.members.clear()  # type: ignore[attr-defined]
    except tarfile.TarError as error:
        blame(blob, layer=layer.name)
        raise InputError(f"{blob}: the layer is no tar stream: {error}", fix="make the image again") from None
    while reader.read(CHUNK_BYTES):
        pass  # what follows the end marker belongs to the digest, which is compared at the very end


def _whole(archive: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> Iterator[bytes]:
    """A member with its content."""
    yield _header(_changed(member, name))
    if not member.isreg():
        return
    source = archive.extractfile(member)
    assert source is not None
    left = member.size
    while left:
        piece = source.read(min(CHUNK_BYTES, left))
        if not piece:
            raise InputError(f"member {name!r} has fewer bytes than it says", fix=FIX)
        left -= len(piece)
        yield piece
    yield bytes(-member.size % BLOCK)


def _changed(member: tarfile.TarInfo, name: str, target: str | None = None) -> tarfile.TarInfo:
    """A member under another name, with only what a tree has: no names of users, no parts of a second in times."""
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode = member.type, member.size, member.mode & 0o7777
    info.uid, info.gid, info.mtime = member.uid, member.gid, int(member.mtime)
    info.linkname = member.linkname if target is None else target
    info.pax_headers = {key: value for key, value in member.pax_headers.items() if key.startswith(XATTR)}
    if info.isreg():
        info.type, info.linkname = tarfile.REGTYPE, ""  # also old and contiguous files
    elif target is not None:
        info.type, info.size, info.pax_headers = tarfile.LNKTYPE, 0, {}
    return info


def _plain_folder(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.mtime = tarfile.DIRTYPE, 0o755, EPOCH_S
    return info


def _header(info: tarfile.TarInfo) -> bytes:
    """The header blocks of a member: in GNU's form, in pax's only where it has extended attributes.

    mksquashfs 4.5.1 loses the first slash of a link's target that comes in a pax header, as one does that is long or
    not ASCII.
    """
    if info.pax_headers:
        return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _plain(name: str) -> str:
    return "/".join(part for part in name.split("/") if part not in ("", "."))


def _name(member: tarfile.TarInfo, layer: ImageLayer) -> str:
    if member.name.startswith("/") or ".." in PurePosixPath(member.name).parts:
        _refuse(layer, member, "leads out of the image")
    return _plain(member.name)


def _whiteout(name: str, seen: _Seen) -> None:
    parent, _, base = name.rpartition("/")
    if base == OPAQUE:
        seen.opaque.add(parent)
    else:
        seen.removed.add(f"{parent}/{base.removeprefix(WHITEOUT)}".lstrip("/"))


def _check(member: tarfile.TarInfo, name: str, seen: _Seen, layer: ImageLayer) -> None:
    """Remember a member; refuse what no tree can have."""
    for parent in parents(name):
        if parent in seen.others:
            _refuse(layer, member, f"lies below {parent}, which is not a folder")
        seen.folders.add(parent)
    if name in seen.others or (name in seen.folders and not member.isdir()):
        _refuse(layer, member, "appears twice")
    if member.isdir():
        seen.folders.add(name)
        return
    if member.islnk():
        target = seen.files.get(_plain(member.linkname))
        if target is None:
            _refuse(layer, member, f"is a hard link to {member.linkname}, which is no file of this layer")
        seen.files[name] = target
    elif member.isreg():
        seen.files[name] = name
    elif not member.issym():
        _refuse(layer, member, "is a device, a pipe or of an unknown type")
    seen.others.add(name)


def _refuse(layer: ImageLayer, member: tarfile.TarInfo, why: str) -> NoReturn:
    raise InputError(f"layer {layer.name}: member {member.name!r} {why}", fix=FIX)
