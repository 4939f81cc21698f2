"""Unpack a wheel to a folder and pack a folder to a wheel, by streams: no member is ever held in memory.

Between the two a wheel is a folder of its files without RECORD. Equal folders give equal wheels: members are sorted,
dated 1980, with fixed modes, and stored uncompressed, so that their bytes depend on no release of zlib. Device code is
compressed by the compiler already; what deflate would save is said in docs/kernels-wheels.md.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

from orbit.audit.archives.wheel_disorder import SIGNATURES
from orbit.audit.archives.zip_source import PROBLEMS, Member, MemberDamage, ZipSource
from orbit.audit.binary.elf import is_elf
from orbit.core.digests import record_digest
from orbit.core.files import CHUNK_BYTES
from orbit.errors import InputError

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time a zip archive can hold."""
PROGRAM_MODE, FILE_MODE = 0o755, 0o644
UNIX = 3
AGAIN = "build it again"


def unpack_wheel(path: Path, folder: Path) -> None:
    """Write every file of a wheel but RECORD and its signatures below ``folder``, which is made if need be.

    Raises :class:`InputError` for an archive that is damaged, that has a member twice, or that has members no installer
    can write as they are (links, names that lead out of the folder).
    """
    with ZipSource(path) as source:
        members = tuple(_usable(path, source.members))
        folder.mkdir(parents=True, exist_ok=True)
        for member in members:
            target = folder / member.name
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                with open(target, "xb") as file:
                    file.writelines(source.stream(member))
                    os.fchmod(file.fileno(), PROGRAM_MODE if member.executable else FILE_MODE)
            except MemberDamage as error:
                raise InputError(f"{path.name}: member {member.name!r} is damaged: {error}", fix=AGAIN) from None
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                raise InputError(
                    f"{path.name}: member {member.name!r} is in it twice, or is a folder too", fix=AGAIN
                ) from None


def _usable(path: Path, members: tuple[Member, ...]) -> Iterator[Member]:
    for member in members:
        if member.problem:
            raise InputError(f"{path.name}: member {member.name!r}: {PROBLEMS[member.problem]}", fix=AGAIN)
        if not member.is_folder and not _is_signature(member.name):
            yield member


def write_wheel(path: Path, folder: Path) -> None:
    """Pack the files below ``folder`` into a deterministic wheel at ``path``, with a RECORD made here.

    Raises :class:`InputError` when there is not one ``*.dist-info`` folder with a WHEEL in it, or for a link.
    """
    names = file_names(folder)
    info = dist_info(folder)
    rows: list[tuple[str, str, int | str]] = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        # the specification asks for dist-info at the end of the archive; RECORD knows all others, so it comes last
        for name in sorted(names, key=lambda name: (name.startswith(f"{info}/"), name)):
            digest, size = _pack(archive, name, folder / name)
            rows.append((name, f"sha256={digest}", size))
        record = f"{info}/RECORD"
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([*sorted(rows), (record, "", "")])
        archive.writestr(_entry(record, FILE_MODE), text.getvalue())


def _pack(archive: zipfile.ZipFile, name: str, file: Path) -> tuple[str, int]:
    """Write one member; (its digest in RECORD's spelling, its size)."""
    state, size = hashlib.sha256(), 0
    with open(file, "rb") as source:
        head = source.read(CHUNK_BYTES)
        entry = _entry(name, PROGRAM_MODE if is_elf(head[:6]) or head[:2] == b"#!" else FILE_MODE)
        entry.file_size = os.fstat(source.fileno()).st_size  # from 2 GiB on the header must have room for 64 bits
        with archive.open(entry, "w") as member:
            while head:
                state.update(head)
                size += len(head)
                member.write(head)
                head = source.read(CHUNK_BYTES)
    return record_digest(state.digest()), size


def _entry(name: str, mode: int) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, EPOCH)
    member.external_attr = (0o100000 | mode) << 16
    member.create_system = UNIX
    return member


def file_names(folder: Path) -> tuple[str, ...]:
    """Every file below ``folder``, relative, sorted; RECORD and its signatures left out. Raises :class:`InputError` for
    a link: a wheel holds none."""
    found = []
    for here, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(here, name)
            relative = path.relative_to(folder).as_posix()
            if path.is_symlink():
                raise InputError(f"{relative}: a link, and a wheel holds none", fix="put the file itself there")
            if name in files and not _is_signature(relative):
                found.append(relative)
    return tuple(sorted(found))


def dist_info(folder: Path) -> str:
    """Name of the ``*.dist-info`` folder. Raises :class:`InputError` when there is not exactly one with a WHEEL."""
    found = sorted(path.name for path in folder.glob("*.dist-info") if (path / "WHEEL").is_file())
    if len(found) != 1:
        raise InputError(
            f"a wheel has one dist-info folder, this has {len(found)}: {', '.join(found) or 'none'}", fix=AGAIN
        )
    return found[0]


def elf_names(folder: Path) -> tuple[str, ...]:
    """Those of :func:`file_names` that are 64-bit little-endian ELF files."""
    return tuple(name for name in file_names(folder) if is_elf(_head(folder / name)))


def _head(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(6)


def _is_signature(name: str) -> bool:
    folder, _, base = name.partition("/")
    return folder.endswith(".dist-info") and base in SIGNATURES
