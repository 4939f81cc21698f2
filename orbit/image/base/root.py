"""A root file system as mmdebstrap made it, read again: what belongs into an image, and which packages are in it.

Dropped is what belongs to the building machine (host name, resolver, logs, caches, device nodes); everything is root's
and readable: no set-uid bits, no file only root can read.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from orbit.core.records import Record
from orbit.errors import CheckFailed
from orbit.image.base.control import paragraphs, source_of
from orbit.image.base.definition import BaseDefinition
from orbit.image.tar import Member, Slice, content, folder, tar_chunks

TRACES = (
    "etc/apt/sources.list",
    "etc/apt/sources.list.d/*",
    "etc/apt/apt.conf.d/*mmdebstrap",
    "etc/dpkg/*/*mmdebstrap",
)
"""What making it leaves behind, never kept: the place of the packages on the building machine is in it."""


class DebianPackage(Record, frozen=True, kw_only=True):
    """One installed package."""

    name: str
    version: str
    architecture: str
    source: str = ""
    """Source package."""
    source_version: str = ""


def read_root(raw: Path, definition: BaseDefinition) -> Iterator[Member]:
    """Members of the raw tar that belong into the image, root's and readable by all."""
    with tarfile.open(raw, "r:") as archive:
        for info in archive:
            name = os.path.normpath(info.name).strip("/")
            if name == "." or name in definition.files or _dropped(name, definition, link=info.issym()):
                continue
            if info.isdir():
                yield Member(name, "dir", 0o1777 if info.mode & 0o1000 else 0o755)
            elif info.issym():
                yield Member(name, "symlink", 0o777, target=info.linkname)
            elif info.islnk():
                target = os.path.normpath(info.linkname)
                yield Member(name, "hardlink", 0o755 if info.mode & 0o100 else 0o644, target=target)
            elif info.isreg():
                mode = 0o755 if info.mode & 0o100 else 0o644
                yield Member(name, "file", mode, size=info.size, source=Slice(raw, info.offset_data))
    yield from (folder(name) for name in ("dev", "proc", "sys", "run"))
    yield Member("tmp", "dir", 0o1777)
    yield from (content(name, text.encode()) for name, text in sorted(definition.files.items()))


def _dropped(name: str, definition: BaseDefinition, *, link: bool) -> bool:
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in TRACES):
        return True
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in definition.keep):
        return False
    if link and any(PurePosixPath(name).match(pattern) for pattern in definition.keep_links):
        return False
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in definition.drop)


def installed_packages(members: Sequence[Member]) -> tuple[DebianPackage, ...]:
    """What dpkg's own database in the root file system lists, sorted by name."""
    status = next((member for member in members if member.name == "var/lib/dpkg/status"), None)
    if status is None:
        raise CheckFailed("the root file system has no dpkg database", fix="take var/lib/dpkg/status out of `drop`")
    text = b"".join(tar_chunks([status]))[512 : 512 + status.size].decode()
    return read_status(text)


def package_of(fields: dict[str, str]) -> DebianPackage:
    """The package a paragraph of dpkg's database is about."""
    source, source_version = source_of(fields)
    return DebianPackage(
        name=fields["Package"],
        version=fields["Version"],
        architecture=fields.get("Architecture", ""),
        source=source,
        source_version=source_version,
    )


def read_status(text: str) -> tuple[DebianPackage, ...]:
    """The installed packages of a dpkg database (``var/lib/dpkg/status``), sorted by name."""
    found = [
        package_of(fields)
        for fields in paragraphs(text.splitlines())
        if fields.get("Status", "").endswith(" installed")
    ]
    return tuple(sorted(found, key=lambda package: package.name))


def write_root(members: Sequence[Member], target: Path) -> str:
    """Write the members as a tar file, durably; its sha256."""
    digest = hashlib.sha256()
    with open(target, "wb") as file:
        for chunk in tar_chunks(members):
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()
