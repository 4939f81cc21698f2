"""Debian's control files: paragraphs of fields, the control file inside a package, the order of versions.

Formats: deb-control(5), deb(5), deb-version(7).
"""

from __future__ import annotations

import gzip
import io
import lzma
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

import zstandard

from orbit.core.files import read_file
from orbit.errors import InputError

CONTROL_MAX_BYTES = 16 << 20
"""Of an unpacked control archive; the largest in Debian has 3 MB."""
PACKAGE_MAX_BYTES = 2 << 30
FIELD = re.compile(r"(?P<name>[^\s:#-][^\s:]*):[ \t]*(?P<value>.*)")
UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "control.tar": bytes,
    "control.tar.gz": gzip.decompress,
    "control.tar.xz": lzma.decompress,
    "control.tar.zst": lambda data: zstandard.ZstdDecompressor().decompress(data, CONTROL_MAX_BYTES),
}
PACKED = re.compile(r"(?P<name>[^ ]+) \((?P<version>[^)]+)\)")


def paragraphs(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    """The paragraphs of a control file. Lines that continue a field keep their leading blank."""
    fields: dict[str, str] = {}
    last = ""
    for line in lines:
        text = line.rstrip("\n")
        if not text.strip():
            if fields:
                yield fields
            fields, last = {}, ""
        elif text[0] in " \t":
            if last:
                fields[last] += f"\n{text}"
        elif match := FIELD.fullmatch(text):
            last = match["name"]
            fields[last] = match["value"].rstrip()
    if fields:
        yield fields


def source_of(fields: dict[str, str]) -> tuple[str, str]:
    """(name, version) of the source package a binary package was built from.

    >>> source_of({"Package": "libgcc-s1", "Version": "12.2.0-14", "Source": "gcc-12 (12.2.0-13)"})
    ('gcc-12', '12.2.0-13')
    """
    said = fields.get("Source", "") or fields["Package"]
    match = PACKED.fullmatch(said)
    return (match["name"], match["version"]) if match else (said, fields["Version"])


def read_control(deb: Path) -> str:
    """The control file inside a package, as it stands. Raises :class:`InputError` for what is no package."""
    data = read_file(deb, PACKAGE_MAX_BYTES)
    for name, content in _ar_members(data, deb):
        unpack = UNPACK.get(name)
        if unpack is None:
            continue
        try:
            with tarfile.open(fileobj=io.BytesIO(unpack(content))) as archive:
                for member in archive:
                    if member.isreg() and member.name.removeprefix("./") == "control":
                        handle = archive.extractfile(member)
                        return handle.read(CONTROL_MAX_BYTES).decode() if handle else ""
        except (
            tarfile.TarError,
            lzma.LZMAError,
            zstandard.ZstdError,
            zlib.error,
            OSError,
            EOFError,
            ValueError,
        ) as bad:
            raise InputError(f"{deb.name}: {name} cannot be read: {bad}", fix="this is no usable package") from None
    raise InputError(f"{deb.name}: no control file", fix="this is no usable package")


def _ar_members(data: bytes, deb: Path) -> Iterator[tuple[str, bytes]]:
    """(name, content) of an ar(5) archive: 8 bytes of magic, then a header of 60 bytes before each member."""
    if not data.startswith(b"!<arch>\n"):
        raise InputError(f"{deb.name}: not a Debian package (no ar archive)", fix="copy it again")
    at = 8
    while at < len(data):
        head = data[at : at + 60]
        size = head[48:58].strip()
        if head[58:] != b"`\n" or not size.isdigit() or at + 60 + int(size) > len(data):
            raise InputError(f"{deb.name}: damaged at byte {at}", fix="copy it again")
        yield head[:16].decode(errors="replace").strip().rstrip("/"), data[at + 60 : at + 60 + int(size)]
        at += 60 + int(size) + int(size) % 2


type Part = tuple[tuple[tuple[int, ...], int], ...]
"""Runs of non-digits (as orders of characters) and the number after each."""


def version_key(version: str) -> tuple[int, Part, Part]:
    """A key that sorts versions as dpkg does: epoch, upstream version, revision.

    >>> sorted(["1:1.0", "1.0~rc1", "1.0", "1.0+b1"], key=version_key)
    ['1.0~rc1', '1.0', '1.0+b1', '1:1.0']
    """
    epoch, colon, rest = version.partition(":")
    if not colon:
        epoch, rest = "0", version
    upstream, dash, revision = rest.rpartition("-")
    if not dash:
        upstream, revision = rest, "0"
    return int(epoch) if epoch.isdigit() else 0, _part_key(upstream), _part_key(revision)


def _part_key(text: str) -> Part:
    """Runs of non-digits and digits in turn. ``~`` sorts before the end, letters before everything else."""
    words, numbers = re.split(r"\d+", text), re.findall(r"\d+", text)
    pairs = zip_longest(words, numbers, fillvalue="")
    return tuple(((*(_order(char) for char in word), 0), int(number or 0)) for word, number in pairs)


def _order(char: str) -> int:
    if char == "~":
        return -1
    return ord(char) if char.isalpha() else ord(char) + 256
