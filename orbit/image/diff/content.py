"""Why two files of one name have other bytes: by what they are, and for archives member by member.

Binaries, texts and zip archives are compared by :mod:`orbit.kernels.wheels.compare`, as two wheels are.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from orbit.audit.binary.elf import MalformedBinary, is_elf
from orbit.audit.facts import printable
from orbit.core.files import CHUNK_BYTES
from orbit.errors import InputError
from orbit.image.diff import archives
from orbit.image.diff.archives import AR_MAGIC, GZIP_MAGIC, Item, NotAnArchive
from orbit.image.diff.bytecode import compare_bytecode, is_pyc
from orbit.image.diff.records import ContentDifference
from orbit.kernels.wheels.compare import (
    MAX_TEXT_BYTES,
    SHOWN,
    Comparison,
    MemberDifference,
    compare_files,
    compare_wheels,
)

HEAD_BYTES = 512
ZIP_MAGIC = b"PK\x03\x04"
MAX_DEPTH = 3
"""Archives in archives."""
MAX_INSIDE = 200
"""Members of one archive that are compared to the cause; of more only the names are told."""
MAX_BYTECODE_BYTES = 64 << 20
TEXT_HEAD_BYTES = 1 << 16
LINE_CHARS = 400


def compare_content(name: str, left: Path, right: Path, depth: int = 0) -> ContentDifference:
    """Compare two files that have other bytes. Whatever is in them, nothing raises but OSError."""
    heads = _head(left), _head(right)
    form = _form(name, heads)
    try:
        found = COMPARE[form](name, left, right, depth)
    except (NotAnArchive, InputError, MalformedBinary, zipfile.BadZipFile, NotImplementedError):
        found = _data("", left, right, depth)
        found = _with_causes(found, ("unreadable", *found.causes))
    return found


def _with_causes(found: ContentDifference, causes: tuple[str, ...]) -> ContentDifference:
    return msgspec.structs.replace(found, causes=causes)


def _head(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(HEAD_BYTES)


def _form(name: str, heads: tuple[bytes, bytes]) -> str:
    """What both files are by their first bytes; ``text`` or ``data`` when they are two things or nothing known."""
    for form, test in FORMS.items():
        if all(test(head) for head in heads) and (form != "pyc" or name.endswith((".pyc", ".pyo"))):
            return form
    return "text" if all(b"\0" not in head for head in heads) else "data"


FORMS: dict[str, Callable[[bytes], bool]] = {
    "elf": is_elf,
    "zip": lambda head: head.startswith(ZIP_MAGIC),
    "gzip": lambda head: head.startswith(GZIP_MAGIC),
    "ar": lambda head: head.startswith(AR_MAGIC),
    "tar": lambda head: head[257:262] == b"ustar",
    "pyc": is_pyc,
}


def _sizes(left: Path, right: Path) -> tuple[int, int]:
    return left.stat().st_size, right.stat().st_size


# --- what the comparison of wheels knows ------------------------------------------------------------------------------


def _elf(name: str, left: Path, right: Path, _depth: int) -> ContentDifference:
    return _of_member(compare_files(name, (left, right)), "elf")


def _text(name: str, left: Path, right: Path, depth: int) -> ContentDifference:
    if max(_sizes(left, right)) > MAX_TEXT_BYTES or not (_is_text(left) and _is_text(right)):
        return _data(name, left, right, depth)
    found = _of_member(compare_files(name, (left, right)), "text")
    if found.causes == ("record",):
        return _rows_of_record(found, left, right)
    return _with_causes(found, tuple("text" if cause == "data" else cause for cause in found.causes))


def _rows_of_record(found: ContentDifference, left: Path, right: Path) -> ContentDifference:
    """Which rows differ: all of them follow from files, and tell which."""
    one, two = (Counter(path.read_bytes().decode("utf-8", "replace").splitlines()) for path in (left, right))
    rows = sorted((one - two).elements()), sorted((two - one).elements())
    return msgspec.structs.replace(
        found,
        lines_left=_short(rows[0][:SHOWN]),
        lines_right=_short(rows[1][:SHOWN]),
        num_lines_left=len(rows[0]),
        num_lines_right=len(rows[1]),
    )


def _is_text(path: Path) -> bool:
    with open(path, "rb") as file:
        return b"\0" not in file.read(TEXT_HEAD_BYTES)


def _zip(_name: str, left: Path, right: Path, _depth: int) -> ContentDifference:
    found: Comparison = compare_wheels(left, right)
    inside = tuple(_of_member(member, "", member.name) for member in found.members)
    sizes = _sizes(left, right)
    return ContentDifference(
        form="zip", left_bytes=sizes[0], right_bytes=sizes[1], causes=found.causes, inside=inside[:MAX_INSIDE]
    )


def _of_member(member: MemberDifference, form: str, name: str = "") -> ContentDifference:
    missing = member.left_bytes is None or member.right_bytes is None
    known = "missing" if missing else "elf" if member.binary else "text" if member.num_lines_left else "data"
    return ContentDifference(
        name=printable(name),
        form=form or known,
        left_bytes=member.left_bytes,
        right_bytes=member.right_bytes,
        causes=member.causes,
        lines_left=_short(member.lines_left),
        lines_right=_short(member.lines_right),
        num_lines_left=member.num_lines_left,
        num_lines_right=member.num_lines_right,
        binary=member.binary,
    )


def _short(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(line if len(line) <= LINE_CHARS else f"{line[:LINE_CHARS]}..." for line in lines)


# --- bytecode and data ------------------------------------------------------------------------------------------------


def _pyc(name: str, left: Path, right: Path, depth: int) -> ContentDifference:
    sizes = _sizes(left, right)
    if max(sizes) > MAX_BYTECODE_BYTES:
        return _data(name, left, right, depth)
    causes, fields = compare_bytecode(left.read_bytes(), right.read_bytes())
    return ContentDifference(form="pyc", left_bytes=sizes[0], right_bytes=sizes[1], causes=causes, fields=fields)


def _data(_name: str, left: Path, right: Path, _depth: int) -> ContentDifference:
    sizes = _sizes(left, right)
    count, first, at = abs(sizes[0] - sizes[1]), -1, 0
    with open(left, "rb") as one, open(right, "rb") as two:
        while (a := one.read(CHUNK_BYTES)) and (b := two.read(CHUNK_BYTES)):
            length = min(len(a), len(b))
            if a[:length] != b[:length]:
                a, b = a[:length], b[:length]
                changed = (int.from_bytes(a, "little") ^ int.from_bytes(b, "little")).to_bytes(length, "little")
                count += length - changed.count(0)
                first = first if first >= 0 else at + length - len(changed.lstrip(b"\0"))
            at += length
    return ContentDifference(
        form="data",
        left_bytes=sizes[0],
        right_bytes=sizes[1],
        causes=("data",),
        first=first if first >= 0 else min(sizes),
        differing_bytes=count,
    )


# --- archives ---------------------------------------------------------------------------------------------------------


def _gzip(name: str, left: Path, right: Path, depth: int) -> ContentDifference:
    """Header fields, and what is inside; equal content is packed differently."""
    sizes = _sizes(left, right)
    fields = archives.gzip_fields(left, right)
    causes = ["gzip-header"] if fields else []
    inside: tuple[ContentDifference, ...] = ()
    with tempfile.TemporaryDirectory(dir=left.parent) as folder:
        ones, twos = Path(folder, "left"), Path(folder, "right")
        archives.gunzip(left, ones)
        archives.gunzip(right, twos)
        if _equal(ones, twos):
            causes += [] if fields and _same_body(left, right) else ["packing"]
        elif depth < MAX_DEPTH:
            found = compare_content(name.removesuffix(".gz"), ones, twos, depth + 1)
            inside = (found,)
            causes += found.causes
        else:
            causes.append("data")
    return ContentDifference(
        form="gzip", left_bytes=sizes[0], right_bytes=sizes[1], causes=tuple(causes), fields=fields, inside=inside
    )


def _same_body(left: Path, right: Path) -> bool:
    """Whether all behind the fixed part of two gzip headers is the same."""
    return left.read_bytes()[10:] == right.read_bytes()[10:] if max(_sizes(left, right)) < MAX_TEXT_BYTES else False


def _equal(left: Path, right: Path) -> bool:
    with open(left, "rb") as one, open(right, "rb") as two:
        while True:
            a, b = one.read(CHUNK_BYTES), two.read(CHUNK_BYTES)
            if a != b:
                return False
            if not a:
                return True


def _tar(_name: str, left: Path, right: Path, depth: int) -> ContentDifference:
    return _archive("tar", left, right, depth, archives.tar_items)


def _ar(_name: str, left: Path, right: Path, depth: int) -> ContentDifference:
    return _archive("ar", left, right, depth, archives.ar_items)


def _archive(
    form: str, left: Path, right: Path, depth: int, items: Callable[[Path], tuple[Item, ...]]
) -> ContentDifference:
    sizes = _sizes(left, right)
    found = archives.compare_items(left, right, items(left), items(right))
    inside = [_alone(one, two) for one, two in found.alone]
    with tempfile.TemporaryDirectory(dir=left.parent) as folder:
        ones, twos = Path(folder, "left"), Path(folder, "right")
        for one, two in found.changed:
            if depth >= MAX_DEPTH or len(inside) >= MAX_INSIDE:
                break
            archives.extract(left, one, ones)
            archives.extract(right, two, twos)
            part = compare_content(one.name, ones, twos, depth + 1)
            inside.append(_named(part, one.name))
    looked = len(inside) - len(found.alone)
    causes = [*found.causes, *sorted({cause for part in inside for cause in part.causes})]
    causes += ["data"] if looked < len(found.changed) else []
    return ContentDifference(
        form=form,
        left_bytes=sizes[0],
        right_bytes=sizes[1],
        causes=tuple(dict.fromkeys(causes)) or ("archive-form",),
        inside=tuple(inside[:MAX_INSIDE]),
    )


def _alone(one: Item | None, two: Item | None) -> ContentDifference:
    item = one or two
    assert item is not None
    return ContentDifference(
        name=printable(item.name),
        form="missing",
        left_bytes=one.size if one else None,
        right_bytes=two.size if two else None,
        causes=("missing",),
    )


def _named(found: ContentDifference, name: str) -> ContentDifference:
    return msgspec.structs.replace(found, name=printable(name))


type Compare = Callable[[str, Path, Path, int], ContentDifference]
COMPARE: dict[str, Compare] = {
    "elf": _elf,
    "zip": _zip,
    "gzip": _gzip,
    "ar": _ar,
    "tar": _tar,
    "pyc": _pyc,
    "text": _text,
    "data": _data,
}
