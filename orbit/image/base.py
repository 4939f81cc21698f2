"""The base root file system: Debian packages by mmdebstrap, written again by our own tar writer.

mmdebstrap unpacks and configures packages from Debian's archive (signatures checked with the host's Debian keyring) in
a folder of its own; with ``SOURCE_DATE_EPOCH`` its result depends on the package versions alone. Writing it again
drops what belongs to the building machine (host name, resolver, logs, caches, device nodes) and makes everything
root's and readable: no set-uid bits, no file only root can read.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from orbit.core import proc, tools
from orbit.core.console import Progress
from orbit.core.files import CHUNK_BYTES
from orbit.core.paths import data_file
from orbit.core.records import Record, dump_json, load_json, load_toml
from orbit.core.store import Store
from orbit.errors import CheckFailed, InputError
from orbit.image.tar import EPOCH_S, Member, Slice, folder, tar_chunks, with_parents

FORMAT = 2
"""Raised when equal definitions come out in other bytes."""
ARCHITECTURE = "amd64"
TIMEOUT_S = 1800.0
MERGED_USR = (
    'for d in bin sbin lib lib64; do mkdir -p "$1/usr/$d"; ln -s "usr/$d" "$1/$d"; done; '
    'mkdir -p "$1/etc/apt/preferences.d"; '
    'printf "Package: usrmerge\\nPin: release *\\nPin-Priority: -1\\n" > "$1/etc/apt/preferences.d/orbit"'
)
"""Makes /bin and its like links before the first package, so that usr-is-merged is taken and usrmerge (Perl) is not."""
FIX = (
    "Debian's archive must be reachable (http_proxy is honoured) and its keys known (package debian-archive-keyring); "
    "without root, user namespaces and /etc/subuid are needed"
)


class BaseDefinition(Record, frozen=True, kw_only=True):
    """``containers/<name>.toml``."""

    schema: int
    distribution: str
    """Only ``debian``."""
    suite: str
    variant: str
    """mmdebstrap's variant, ``minbase``."""
    packages: tuple[str, ...]
    keep: tuple[str, ...] = ()
    """Shell patterns over paths that stay although ``drop`` names them."""
    drop: tuple[str, ...] = ()
    """Shell patterns over paths that are left out (``*`` also matches slashes)."""


class DebianPackage(Record, frozen=True, kw_only=True):
    """One installed package."""

    name: str
    version: str
    architecture: str


class Base(Record, frozen=True, kw_only=True):
    """A finished base."""

    key: str
    """Content key of the definition."""
    tar: Path
    """The root file system, uncompressed."""
    sha256: str
    files: int
    packages: tuple[DebianPackage, ...]
    reused: bool


class Contents(Record, frozen=True, kw_only=True):
    """``base.json`` of a store entry."""

    sha256: str
    files: int
    packages: tuple[DebianPackage, ...]


def load_base(name: str) -> BaseDefinition:
    """Read ``containers/<name>.toml``."""
    path = data_file("containers", f"{name}.toml")
    definition = load_toml(path, BaseDefinition)
    if definition.schema != 1:
        raise InputError(f"{path}: schema {definition.schema} is not known", fix="this version of orbit reads schema 1")
    if definition.distribution != "debian":
        raise InputError(f"{path}: distribution = {definition.distribution!r}", fix='only "debian" can be made')
    if not definition.packages:
        raise InputError(f"{path}: packages is empty", fix="list the packages the image needs")
    return definition


def make_base(name: str, store: Store, *, progress: Progress) -> Base:
    """The base of that name: from the store, or made anew (about half a minute and 60 MB from Debian's archive)."""
    definition = load_base(name)
    inputs = {"format": FORMAT, "architecture": ARCHITECTURE, "definition": definition, "epoch": EPOCH_S}

    def work(place: Path) -> dict[str, str | int]:
        progress.step(f"base: {len(definition.packages)} packages and what they need from Debian {definition.suite}")
        contents = _make(definition, place)
        dump_json(place / "base.json", contents)
        return {"sha256": contents.sha256, "files": contents.files, "packages": len(contents.packages)}

    entry = store.obtain("base", inputs, work)
    contents = load_json(entry.path / "base.json", Contents)
    return Base(
        key=entry.record.key,
        tar=entry.path / "root" / "rootfs.tar",
        sha256=contents.sha256,
        files=contents.files,
        packages=contents.packages,
        reused=entry.reused,
    )


def _make(definition: BaseDefinition, place: Path) -> Contents:
    raw = place / "raw.tar"
    argv = mmdebstrap_argv(definition, raw)
    proc.run(
        [*own_mounts(), *argv],
        doing="making the base root file system",
        env={"SOURCE_DATE_EPOCH": str(EPOCH_S), "HOME": "/nonexistent", "DEBIAN_FRONTEND": "noninteractive"},
        timeout_s=TIMEOUT_S,
        fix=FIX,
    )
    members = with_parents(read_root(raw, definition))
    packages = installed_packages(members)
    target = place / "root" / "rootfs.tar"
    target.parent.mkdir()
    digest = _write(members, target)
    raw.unlink()
    return Contents(sha256=digest, files=sum(member.kind != "dir" for member in members), packages=packages)


def own_mounts() -> list[str]:
    """What to put before mmdebstrap's command, so that a kill leaves nothing mounted.

    As root it mounts the host's /proc and /sys below its working folder, where a careless deletion would reach the
    host. In a mount namespace of their own they end with the last process. Without root mmdebstrap makes one itself.
    """
    return [str(tools.find("unshare")), "--mount", "--propagation", "private", "--"] if os.geteuid() == 0 else []


def mmdebstrap_argv(definition: BaseDefinition, target: Path) -> list[str]:
    """The command that makes the raw root file system."""
    return [
        str(tools.find("mmdebstrap")),
        f"--variant={definition.variant}",
        "--mode=auto",
        f"--architectures={ARCHITECTURE}",
        "--format=tar",
        f"--include={','.join(definition.packages)}",
        f"--setup-hook={MERGED_USR}",
        definition.suite,
        str(target),
    ]


def read_root(raw: Path, definition: BaseDefinition) -> Iterator[Member]:
    """Members of the raw tar that belong into the image, root's and readable by all."""
    with tarfile.open(raw, "r:") as archive:
        for info in archive:
            name = os.path.normpath(info.name).strip("/")
            if name == "." or _dropped(name, definition):
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


def _dropped(name: str, definition: BaseDefinition) -> bool:
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in definition.keep):
        return False
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in definition.drop)


def installed_packages(members: Sequence[Member]) -> tuple[DebianPackage, ...]:
    """What dpkg's own database in the root file system lists, sorted by name."""
    status = next((member for member in members if member.name == "var/lib/dpkg/status"), None)
    if status is None:
        raise CheckFailed("the root file system has no dpkg database", fix="take var/lib/dpkg/status out of `drop`")
    text = b"".join(tar_chunks([status]))[512 : 512 + status.size].decode()
    found = []
    for paragraph in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
        if fields.get("Status", "").endswith(" installed"):
            found.append(
                DebianPackage(
                    name=fields["Package"], version=fields["Version"], architecture=fields.get("Architecture", "")
                )
            )
    return tuple(sorted(found, key=lambda package: package.name))


def _write(members: Sequence[Member], target: Path) -> str:
    digest = hashlib.sha256()
    with open(target, "wb") as file:
        for chunk in tar_chunks(members):
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def base_chunks(base: Base) -> Iterator[bytes]:
    """The tar stream of the base."""
    with open(base.tar, "rb", buffering=0) as file:
        while piece := file.read(CHUNK_BYTES):
            yield piece
