"""Write an environment into one file that can be unpacked anywhere: ``orbit env archive``.

What goes in is what the image has below its prefix: interpreter, wheels, compiled files, and Orbit's own files with the
entry point. The stream is made by the writers of the image's layers, so equal environments give equal bytes (for one
version of the zstd library), whatever the number of processors.

Nothing wrong gets in: every file is compared, while it is read, with the digest that its RECORD or the environment's
list states; a link that leads out of the environment is named and refused; so is what environment.json does not know.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from packaging.utils import canonicalize_name

from orbit.audit.binary.dynamic import read_dynamic
from orbit.audit.binary.elf import MalformedElf, open_if_elf
from orbit.audit.facts import Tree
from orbit.core.console import BYTES, Progress
from orbit.core.digests import record_digest
from orbit.core.files import read_file, sync_folder
from orbit.core.records import MAX_BYTES
from orbit.env import archive_list, relocate, tree
from orbit.env.archive_list import LIST, MANIFEST, Editable, Line, Manifest
from orbit.env.contents import CONTENTS
from orbit.env.installed import read_installed
from orbit.env.record import EnvironmentRecord, read_environment
from orbit.env.takeover import SITE
from orbit.errors import InputError, RefusedError
from orbit.image.blob import HashedFile, packer
from orbit.image.content import Listing, list_environment, plan_layers
from orbit.image.layers import read_owners
from orbit.image.own import NAME as OWN_NAME
from orbit.image.own import OwnFiles, layer_members
from orbit.image.tar import Member, tar_chunks, with_parents
from orbit.profile.model import ImagePolicy

AT = "at"
"""Stands for the prefix while the writers of layers, which name whole paths, list the members."""
SHOWN = 10
GLIBC = re.compile(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?")
AGAIN = "create the environment again (`orbit env create`), or archive the one it came from"


@dataclass(frozen=True, slots=True)
class Plan:
    """An archive before it is written."""

    manifest: Manifest
    listed: bytes
    """The content of :data:`orbit.env.archive_list.LIST`."""
    members: tuple[Member, ...]
    """In the order of the stream, without the first two."""

    def stream(self) -> Iterator[Member]:
        """All members."""
        yield from archive_list.heads(self.manifest, self.listed)
        yield from self.members


@dataclass(frozen=True, slots=True)
class Written:
    """An archive as it was written."""

    sha256: str
    """Of the file, hex."""
    size: int
    """Bytes of the file."""
    tar_bytes: int
    """Bytes of the tar stream inside."""


def plan_archive(prefix: Path, own: OwnFiles | None, *, progress: Progress) -> Plan:
    """Look at the environment at ``prefix`` and decide what its archive will hold; ``own`` are Orbit's own files.

    An environment that has Orbit's files already (one that came out of an archive) keeps those. Raises
    :class:`InputError` for a folder that is no environment or holds what none may, and :class:`RefusedError` for one
    that was changed, whose links lead out, or that has distributions its record does not know.
    """
    prefix = Path(os.path.realpath(prefix))
    record = read_environment(prefix)
    _check_untouched(prefix)
    listing = list_environment(prefix)
    _check_links(listing.tree, prefix)
    earlier = _earlier(prefix)
    editables, theirs = _editables(prefix, record)
    has_own = _check_distributions(prefix, record, {item.name for item in editables})
    members = [member for member in _members(listing, progress) if member.name not in theirs]
    if has_own and earlier is None:
        raise RefusedError(f"{prefix}: {OWN_NAME} is installed there, and not by an archive", fix=AGAIN)
    key = earlier[0].orbit if has_own and earlier else ""
    if own is not None and not has_own:
        members += _own_members(own, prefix, record, progress)
        key = own.key
    ordered = with_parents(members)
    lines = tuple(map(_line, ordered))
    if earlier is not None:
        _check_equal(prefix, lines, {line.path: line for line in earlier[1]})
    elif prefix != Path(record.prefix) and not (prefix.parent / CONTENTS).is_file():
        stated = read_owners(prefix, ()).stated
        unknown = [path for path, fact in listing.tree.entries.items() if fact.is_file and path not in stated]
        _check_names_no_host(prefix, unknown)
    if fault := archive_list.tree_fault(lines):
        raise InputError(f"{prefix}: {fault}", fix=AGAIN)
    listed = archive_list.render_list(lines)
    manifest = _manifest(record, lines, listed, key=key, editables=editables, glibc=_glibc(prefix, listing.tree))
    return Plan(manifest, listed, ordered)


def write_archive(plan: Plan, handle: int, *, workers: int | None = None, progress: Progress) -> Written:
    """Write the archive into an open file or pipe, never holding more than a few pieces of it."""
    sink = HashedFile(handle)
    pack = packer("zstd", sink, workers=workers)
    total = plan.manifest.bytes + plan.manifest.list_bytes
    done = 0
    for chunk in tar_chunks(plan.stream()):
        pack.write(chunk)
        done += len(chunk)
        progress.advance("archive", min(done, total), total, unit=BYTES)
    pack.close()
    return Written(sink.digest.hexdigest(), sink.size, done)


def write_archive_file(plan: Plan, target: Path, *, workers: int | None = None, progress: Progress) -> Written:
    """Write the archive as the file ``target``: whole or not at all, over an earlier one in one step."""
    if target.is_dir():
        raise InputError(f"{target}: is a folder", fix="name a file: --output NAME.tar.zst")
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb", buffering=0) as file:
            written = write_archive(plan, file.fileno(), workers=workers, progress=progress)
            os.fsync(file.fileno())
        os.replace(partial, target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(target.absolute().parent)
    return written


def _check_untouched(prefix: Path) -> None:
    """An environment of the store is compared with its manifest first: that takes a second and names the path."""
    manifest = prefix.parent / tree.MANIFEST
    if manifest.is_file() and (harm := tree.damage(prefix, manifest)):
        raise RefusedError(f"{prefix}: {harm} since it was made", fix=AGAIN)


def _check_links(found: Tree, prefix: Path) -> None:
    """No link may lead out, into a cache least of all, or to nothing: it would lead nowhere at the other end."""
    inside = f"{prefix}/"
    wrong = []
    for path, target in sorted(found.links.items()):
        leads = os.path.realpath(prefix / path)
        if target.startswith("/") or not (leads == str(prefix) or leads.startswith(inside)):
            wrong.append(f"{path} -> {target}: out of the environment")
        elif not os.path.lexists(leads):
            wrong.append(f"{path} -> {target}: to nothing")
    if wrong:
        more = [f"and {len(wrong) - SHOWN} more"] if len(wrong) > SHOWN else []
        shown = "\n".join(f"  | {text}" for text in [*wrong[:SHOWN], *more])
        raise RefusedError(
            f"{prefix}: {len(wrong)} link(s) would not survive the move:\n{shown}",
            fix="`orbit env materialize` puts the files themselves in the place of links into caches",
        )


def _earlier(prefix: Path) -> tuple[Manifest, tuple[Line, ...]] | None:
    """Manifest and list of the archive the environment came out of; None when it came out of none."""
    try:
        manifest = archive_list.parse_manifest(read_file(prefix / MANIFEST, MAX_BYTES), str(prefix / MANIFEST))
        listed = read_file(prefix / LIST, MAX_BYTES)
    except FileNotFoundError:
        return None
    return manifest, archive_list.parse_list(listed, manifest, str(prefix))


def _editables(prefix: Path, record: EnvironmentRecord) -> tuple[tuple[Editable, ...], frozenset[str]]:
    """Checkouts installed in development mode beside the environment, and the paths that are theirs.

    Raises :class:`RefusedError` for one that took the place of a wheel: the archive could not hold that wheel.
    """
    known = {dist.name for dist in record.distributions}
    found: list[Editable] = []
    paths: set[str] = set()
    for dist in read_installed(prefix / SITE):
        if not is_editable(dist.info):
            continue
        if dist.name in known:
            raise RefusedError(
                f"{prefix}: {dist.name} is a checkout there, and a wheel in the environment it says it is",
                fix="archive the environment as it was before `--editable`, and give the checkout again to `hydrate`",
            )
        found.append(Editable(name=dist.name, version=dist.info.name.removesuffix(".dist-info").partition("-")[2]))
        paths.update(os.path.normpath(f"{SITE}/{line.path}") for line in dist.lines)
    return tuple(found), frozenset(paths)


def is_editable(info: Path) -> bool:
    """Whether a ``.dist-info`` folder is one of a checkout in development mode (PEP 610, PEP 660)."""
    try:
        said = msgspec.json.decode((info / "direct_url.json").read_bytes())
    except (OSError, msgspec.DecodeError):
        return False
    return isinstance(said, dict) and isinstance(entry := said.get("dir_info"), dict) and entry.get("editable") is True


def _check_distributions(prefix: Path, record: EnvironmentRecord, editables: set[str]) -> bool:
    """Whether Orbit itself is among what is installed; everything else must be what the record names."""
    wanted = {canonicalize_name(dist.name) for dist in record.distributions}
    there = {str(dist.name) for dist in read_installed(prefix / SITE)} - editables
    extra, gone = sorted(there - wanted - {OWN_NAME}), sorted(wanted - there)
    if extra or gone:
        what = f"{extra[0]} is installed, and no part of it" if extra else f"{gone[0]} is missing"
        raise RefusedError(f"{prefix}: {what} by its own record: it is not the environment it says it is", fix=AGAIN)
    return OWN_NAME in there and OWN_NAME not in wanted


def _members(listing: Listing, progress: Progress) -> Iterator[Member]:
    """Members of the environment itself, named relative to its prefix, each file with its sha256."""
    policy = ImagePolicy(name="archive", base="", prefix=AT, layers=())
    for members in plan_layers(listing, policy, progress=progress).values():
        for member in members:
            name = member.name.removeprefix(f"{AT}/")
            if name not in (MANIFEST, LIST):
                yield replace(member, name=name)


def _own_members(own: OwnFiles, prefix: Path, record: EnvironmentRecord, progress: Progress) -> list[Member]:
    at = record.prefix.strip("/")
    with tempfile.TemporaryDirectory(prefix="orbit-own-") as scratch:
        members = layer_members(own, prefix, record.prefix, Path(scratch), progress=progress)
    return [replace(member, name=member.name.removeprefix(f"{at}/")) for member in members]


def _line(member: Member) -> Line:
    if member.kind == "dir":
        return Line(member.name, 0o40755, 0, "")
    if member.kind == "symlink":
        return Line(member.name, 0o120777, 0, member.target)
    digest = member.sha256
    if isinstance(member.source, bytes):
        digest = record_digest(hashlib.sha256(member.source).digest())
    return Line(member.name, 0o100000 | member.mode, member.size, digest)


def _check_equal(prefix: Path, lines: Iterable[Line], earlier: Mapping[str, Line]) -> None:
    """What came out of an archive must be what that archive held."""
    there = {line.path: line for line in lines}
    for path in sorted(there.keys() | earlier.keys()):
        if there.get(path) != earlier.get(path):
            how = "added" if path not in earlier else "missing" if path not in there else "changed"
            raise RefusedError(
                f"{prefix}/{path}: {how} since the environment came out of its archive",
                fix="unpack that archive again: `orbit env hydrate`",
            )


def _check_names_no_host(prefix: Path, paths: Sequence[str]) -> None:
    """Files of unknown origin must not name the folder they lie in."""
    if found := next(relocate.find_paths(prefix, [os.fsencode(prefix)], paths), None):
        raise RefusedError(f"{prefix}: names the folder it lies in ({found}), and could not be moved", fix=AGAIN)


def _glibc(prefix: Path, found: Tree) -> str:
    """The newest version of the C library that any binary asks for."""
    newest = (0, 0)
    for path, fact in found.entries.items():
        name = path.rpartition("/")[2]
        if not fact.is_file or not (fact.mode & 0o100 or ".so" in name):
            continue
        with contextlib.suppress(MalformedElf), open_if_elf(prefix / path) as elf:
            dynamic = read_dynamic(elf) if elf else None
            for need in dynamic.needs if dynamic else ():
                if match := GLIBC.fullmatch(need.version):
                    newest = max(newest, (int(match[1]), int(match[2])))
    return f"{newest[0]}.{newest[1]}" if newest[0] else ""


def _manifest(
    record: EnvironmentRecord,
    lines: Sequence[Line],
    listed: bytes,
    *,
    key: str,
    editables: tuple[Editable, ...],
    glibc: str,
) -> Manifest:
    numbers = archive_list.counts(lines)
    manifest = Manifest(
        environment=record.identity,
        profile=record.profile,
        lock=record.lock,
        prefix=record.prefix,
        python=record.python,
        interpreter=record.interpreter,
        orbit=key,
        platform=f"linux-{platform.machine()}",
        glibc=glibc,
        system_libraries=record.system_libraries,
        editables=editables,
        list_bytes=len(listed),
        list_sha256=hashlib.sha256(listed).hexdigest(),
        files=numbers["files"],
        folders=numbers["folders"],
        links=numbers["links"],
        bytes=numbers["bytes"],
    )
    return archive_list.keyed(manifest)
