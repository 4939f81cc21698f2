"""Make an environment out of an archive, under any path and as any user: ``orbit env hydrate``.

Nothing in an environment names its own place (``orbit env create`` looked, see :mod:`orbit.env.relocate`): programs
find their interpreter beside themselves, compiled files and RECORDs hold no absolute path. So unpacking is all, and
every byte is compared with the archive's list while it is written.

It is written beside its place, in ``.NAME.orbit-partial``, without environment.json, which makes a folder an
environment; that is added last, when everything is on the disk, and then the folder gets its name. After a kill the
next run with the same prefix removes what is left and begins anew.
"""

from __future__ import annotations

import contextlib
import os
import platform
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from orbit.core import proc
from orbit.core.amounts import format_bytes
from orbit.core.console import BYTES, Progress
from orbit.core.files import exclusive, remove_tree, replace_folder, require_free
from orbit.core.findings import Skipped
from orbit.core.records import Record
from orbit.core.store import RECORD_NAME
from orbit.env import archive_list, editable, tree
from orbit.env.archive_list import Line, Manifest
from orbit.env.archive_read import Archive, Source
from orbit.env.record import RECORD_PATH, EnvironmentRecord, read_environment
from orbit.env.unpack import Writer
from orbit.errors import CheckFailed, InputError, RefusedError

SHEBANG_BYTES = 127
"""Longest first line of a script that every kernel takes (BINPRM_BUF_SIZE was 128 before Linux 5.1)."""
PROGRAM = "bin/python3.12"
PATH_MAX = 4095
START = """
import sys
print(sys.version.split()[0], sys.prefix)
try:
    import ctypes
except ImportError as error:
    print(error)
else:
    for name in sys.argv[1:]:
        try:
            ctypes.CDLL(name)
        except OSError:
            print(name)
"""


class Hydrated(Record, frozen=True, kw_only=True):
    """An environment that came out of an archive."""

    prefix: str
    environment: str
    """Identity."""
    profile: str
    files: int
    bytes: int
    archive_sha256: str
    """Of the archive that was read; empty when it was not read to its end because all was there."""
    archive_bytes: int
    reused: bool = False
    """True when this very environment was there, untouched, and nothing was done."""
    replaced: str = ""
    """Identity of the environment that was there before."""
    editables: tuple[editable.Applied, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    """What was not done or not looked at, and why."""


@dataclass(frozen=True, slots=True)
class Options:
    """What one call was asked for."""

    elsewhere: bool = False
    """The environment will be used on another machine: this one need not be able to run it, and does not try."""
    editables: tuple[Path, ...] = ()
    """Checkouts to install in development mode on top."""


class Planned(Record, frozen=True, kw_only=True):
    """What :func:`hydrate` would do."""

    prefix: str
    manifest: Manifest
    disk_bytes: int
    replaces: str
    """Identity of the environment in the place; empty when there is none."""
    skipped: tuple[Skipped, ...]


def look(source: Source, where: str, prefix: Path, options: Options) -> Planned:
    """Read the start of an archive and check everything that can be checked without unpacking it.

    Raises what :func:`hydrate` raises for it.
    """
    prefix = check_prefix(prefix)
    projects = tuple(editable.read_project(path) for path in options.editables)
    before = occupant(prefix)
    with Archive(source, where) as archive:
        _check(archive, prefix, options)
        return Planned(
            prefix=str(prefix),
            manifest=archive.manifest,
            disk_bytes=_room(archive, prefix),
            replaces=before.identity if before else "",
            skipped=_left_out(archive.manifest, projects),
        )


def _check(archive: Archive, prefix: Path, options: Options) -> None:
    """Whether this machine and this path will do."""
    if not options.elsewhere:
        check_machine(archive.manifest, archive.where)
    longest = max((len(line.path.encode()) for line in archive.lines), default=0)
    if len(os.fsencode(prefix)) + longest + 2 > PATH_MAX:
        raise InputError(f"{prefix}: paths inside would be too long", fix="choose a shorter --prefix")


def _room(archive: Archive, prefix: Path) -> int:
    """The bytes it will take on the disk. Raises :class:`RefusedError` when there are less."""
    need = archive_list.disk_bytes(archive.lines)
    place = next(folder for folder in prefix.parents if folder.exists())
    require_free(place, need, "the environment", elsewhere="choose a --prefix on a larger disk")
    return need


def hydrate(source: Source, where: str, prefix: Path, options: Options, *, progress: Progress) -> Hydrated:
    """Unpack the archive ``source`` (``where`` names it in errors) as the environment ``prefix``.

    Raises :class:`InputError` for what is no archive, a damaged or hostile one (nothing is kept), a path no environment
    can have or a checkout that cannot be installed; :class:`RefusedError` when something else is in the place, when the
    disk is too small, when this machine could not run it.
    """
    prefix = check_prefix(prefix)
    projects = tuple(editable.read_project(path) for path in options.editables)
    before = occupant(prefix)
    with Archive(source, where) as archive:
        manifest = archive.manifest
        skipped = _left_out(manifest, projects)
        if before is not None and not projects and is_intact(prefix, manifest, archive.lines):
            return _answer(prefix, manifest, archive, reused=True, skipped=skipped)
        _check(archive, prefix, options)
        partial = prefix.with_name(f".{prefix.name}.orbit-partial")
        progress.step(f"unpacking {manifest.files} files, {format_bytes(manifest.bytes)}, as {prefix}")
        with _alone(partial, prefix):
            _room(archive, prefix)
            place = partial / "tree"
            applied, missing = _fill(archive, place, projects, options, progress)
            replace_folder(place, prefix)
        skipped += missing
        return _answer(
            prefix, manifest, archive, skipped=skipped, editables=applied, replaced=before.identity if before else ""
        )


@contextlib.contextmanager
def _alone(partial: Path, prefix: Path) -> Iterator[None]:
    """Have the folder ``partial`` to ourselves, empty; whatever happens inside the block, it is gone afterwards."""
    lock = partial / "lock"
    with exclusive(lock, f"orbit env hydrate --prefix {prefix}"):
        if not lock.exists():
            raise RefusedError(f"{prefix}: another run ended this very moment", fix="run the same command again")
        try:
            remove_tree(partial / "tree")  # of a run that was killed
            yield
        finally:
            remove_tree(partial)


def _answer(
    prefix: Path,
    manifest: Manifest,
    archive: Archive,
    *,
    reused: bool = False,
    replaced: str = "",
    skipped: tuple[Skipped, ...] = (),
    editables: tuple[editable.Applied, ...] = (),
) -> Hydrated:
    return Hydrated(
        prefix=str(prefix),
        environment=manifest.environment,
        profile=manifest.profile,
        files=manifest.files,
        bytes=manifest.bytes,
        archive_sha256="" if reused else archive.sha256,
        archive_bytes=archive.size,
        reused=reused,
        replaced=replaced,
        editables=editables,
        skipped=skipped,
    )


def check_prefix(prefix: Path) -> Path:
    """``prefix`` as an absolute path in which an environment works.

    Raises :class:`InputError` for one that the variables of an environment cannot name (a colon separates folders
    there), or that is too long for the first line of the scripts that pip, uv and others write.
    """
    place = prefix.absolute()
    place = Path(os.path.realpath(place.parent)) / place.name
    text = os.fspath(place)
    if not place.name or place.name in (".", ".."):
        raise InputError(f"{prefix}: not the name of a folder", fix="choose another --prefix")
    if ":" in text or not text.isprintable():
        raise InputError(
            f"{prefix!s}: a colon or a sign that cannot be printed in the path",
            fix="choose another --prefix: PATH and LD_LIBRARY_PATH separate folders with colons",
        )
    room = SHEBANG_BYTES - len(f"#!/{PROGRAM}")
    if len(os.fsencode(place)) > room:
        raise InputError(
            f"{prefix}: {len(os.fsencode(place))} bytes, and scripts whose first line names an interpreter below it "
            f"start on every Linux only up to {room}",
            fix="choose a shorter --prefix",
        )
    return place


def occupant(prefix: Path) -> EnvironmentRecord | None:
    """The environment that is at ``prefix`` and would be replaced; None when there is nothing, or an empty folder.

    Raises :class:`RefusedError` for anything else there, and for an environment of a store.
    """
    if prefix.is_symlink() or (prefix.exists() and not prefix.is_dir()):
        raise RefusedError(f"{prefix}: exists and is no folder", fix="choose another --prefix, or remove it")
    if not prefix.exists():
        return None
    if prefix.is_mount():
        raise RefusedError(
            f"{prefix}: a file system is mounted right there, so nothing can take its place in one step",
            fix=f"name a folder in it: --prefix {prefix}/env",
        )
    if not any(prefix.iterdir()):
        return None
    if (prefix.parent / RECORD_NAME).exists():
        raise RefusedError(f"{prefix}: belongs to Orbit's store", fix="choose another --prefix")
    try:
        return read_environment(prefix)
    except InputError:
        raise RefusedError(
            f"{prefix}: neither empty nor an environment", fix="choose another --prefix, or empty that folder"
        ) from None


def check_machine(manifest: Manifest, where: str) -> None:
    """Refuse a machine that could not start the environment: another processor, or too old a C library."""
    here = f"linux-{platform.machine()}"
    fix = "unpack it where it will be used; --elsewhere says that it will be used on another machine"
    if manifest.platform != here:
        raise RefusedError(f"{where}: made for {manifest.platform}, and this machine is {here}", fix=fix)
    library = ""
    with contextlib.suppress(ValueError, OSError):
        library = (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ")
    if manifest.glibc and _number(library) < _number(manifest.glibc):
        raise RefusedError(
            f"{where}: its binaries need glibc {manifest.glibc}, and this machine has {library or 'no glibc'}",
            fix=f"{fix}; the interpreter of ./orbitw needs less than one that was compiled on a newer system",
        )


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


def _left_out(manifest: Manifest, projects: Sequence[editable.Project]) -> tuple[Skipped, ...]:
    given = {project.name for project in projects}
    return tuple(
        Skipped(
            what=f"{item.name} {item.version}",
            reason="was a checkout in development mode where the archive was made, and is not inside: --editable PATH",
        )
        for item in manifest.editables
        if item.name not in given
    )


def is_intact(prefix: Path, manifest: Manifest, lines: Sequence[Line]) -> bool:
    """Whether ``prefix`` is what this archive unpacks to: kind, mode, size and time of every path, and the manifest."""
    wanted = {f"{line.path}\t{line.mode:o}\t{_told_size(line)}\t{tree.EPOCH_NS}" for line in lines}
    heads = archive_list.heads(manifest, archive_list.render_list(lines))
    wanted |= {f"{member.name}\t100644\t{member.size}\t{tree.EPOCH_NS}" for member in heads}
    own = prefix / heads[0].name
    return own.is_file() and own.read_bytes() == heads[0].source and wanted == set(tree.manifest_lines(prefix))


def _told_size(line: Line) -> int:
    return len(line.what.encode()) if stat.S_ISLNK(line.mode) else line.size


def _fill(
    archive: Archive, place: Path, projects: Sequence[editable.Project], options: Options, progress: Progress
) -> tuple[tuple[editable.Applied, ...], tuple[Skipped, ...]]:
    """Make the whole environment in the new folder ``place``, environment.json last."""
    writer = Writer(place)
    done = 0
    try:
        for line in archive.contents(writer.begin):
            writer.end(line)
            done += line.size
            progress.advance("unpacking", done, archive.manifest.bytes, unit=BYTES)
    finally:
        writer.close()
    for member in archive_list.heads(archive.manifest, archive_list.render_list(archive.lines)):
        assert isinstance(member.source, bytes)
        writer.write(member.name, member.source)
    applied = tuple(editable.apply(place, project) for project in projects)
    missing = _start(place, archive.manifest, options)
    writer.finish()
    _check_identity(place, archive.manifest)
    tree.sync(place)
    return applied, missing


def _check_identity(place: Path, manifest: Manifest) -> None:
    """The record inside must say what the manifest says."""
    record = read_environment(place)
    for name in ("identity", "profile", "lock", "prefix"):
        said = manifest.environment if name == "identity" else getattr(manifest, name)
        if getattr(record, name) != said:
            raise InputError(f"{RECORD_PATH}: {name} is not what the manifest says", fix=archive_list.NOT_OURS)


def _start(place: Path, manifest: Manifest, options: Options) -> tuple[Skipped, ...]:
    """Start the interpreter where it lies now; the libraries of the system it will not find here."""
    if options.elsewhere:
        return (Skipped(what="starting the interpreter", reason="the environment is for another machine"),)
    argv: list[str | Path] = [place / PROGRAM, "-I", "-S", "-B", "-c", START, *manifest.system_libraries]
    said = proc.run(argv, doing="starting the interpreter", timeout_s=60).stdout.decode(errors="replace").splitlines()
    wanted = f"{manifest.python} {place}"
    if not said or said[0] != wanted:
        raise CheckFailed(
            f"the interpreter says {said[0] if said else 'nothing'!r} instead of {wanted!r}",
            fix="a variable or a wrapper of this machine changes it: see what `env` has in PYTHON*",
        )
    return tuple(
        Skipped(what=name, reason="the interpreter needs it from the system, and this machine lacks it")
        for name in said[1:]
    )
