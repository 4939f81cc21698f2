"""Two wheels compared: equal to the byte, or what differs, down to sections, kernels and texts, and why.

Pure but for reading the two files; members that differ are unpacked to a temporary folder, never held in memory.
"""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from orbit.audit.archives.zip_source import PROBLEMS, Member, MemberDamage, ZipSource
from orbit.audit.binary.elf import MalformedBinary, is_elf
from orbit.core.files import sha256_file
from orbit.core.records import Record
from orbit.errors import InputError
from orbit.kernels.wheels.binaries import BinaryDifference, compare_binaries
from orbit.kernels.wheels.causes import REAL, explain, is_circumstance

SCHEMA = 1
MAX_TEXT_BYTES = 16 << 20
SHOWN = 20


class MemberDifference(Record, frozen=True, kw_only=True):
    """One member that is not equal in both wheels."""

    name: str
    left_bytes: int | None
    """None: the left wheel has no such member."""
    right_bytes: int | None
    binary: BinaryDifference | None = None
    """For ELF files."""
    lines_left: tuple[str, ...] = ()
    """For texts: lines that only one has and nothing explains, the first ones."""
    lines_right: tuple[str, ...] = ()
    num_lines_left: int = 0
    """For texts: how many lines only one has, explained or not."""
    num_lines_right: int = 0
    causes: tuple[str, ...]
    """Keys of :data:`orbit.kernels.wheels.causes.CAUSES`."""


class Comparison(Record, frozen=True, kw_only=True):
    """The result of comparing two wheels."""

    schema: int = SCHEMA
    left: str
    """File name."""
    right: str
    left_sha256: str
    right_sha256: str
    equal: int
    """Number of members that are equal."""
    archive: tuple[str, ...]
    """Causes that lie in the archive and not in its members."""
    members: tuple[MemberDifference, ...]
    identical: bool
    """The files are equal to the byte."""
    causes: tuple[str, ...]
    """Every cause, each once."""
    reproduced: bool
    """Everything that differs is a circumstance of the build: no code, no data, nothing unexplained."""


def compare_wheels(left: Path, right: Path) -> Comparison:
    """Compare two wheels. Raises :class:`InputError` for one that is damaged."""
    sums = sha256_file(left), sha256_file(right)
    with ZipSource(left) as one, ZipSource(right) as two:
        first, second = _members(one), _members(two)
        if sums[0] == sums[1]:
            return _comparison((left, right), sums, len(first))
        digests = _digests(one, first), _digests(two, second)
        common = first.keys() & second.keys()
        differing = sorted(name for name in common if digests[0][name] != digests[1][name])
        found = [_alone(name, first.get(name), second.get(name)) for name in sorted(first.keys() ^ second.keys())]
        with tempfile.TemporaryDirectory() as folder:
            for name in differing:
                paths = Path(folder, "left"), Path(folder, "right")
                _extract(one, first[name], paths[0])
                _extract(two, second[name], paths[1])
                found.append(compare_files(name, paths))
    archive = tuple(_archive(left, right))
    if not archive and not found:
        archive = ("unknown",)
    members = tuple(sorted(found, key=lambda item: item.name))
    return _comparison((left, right), sums, len(common) - len(differing), archive, members)


def _comparison(
    paths: tuple[Path, Path],
    sums: tuple[str, str],
    equal: int,
    archive: tuple[str, ...] = (),
    members: tuple[MemberDifference, ...] = (),
) -> Comparison:
    causes = tuple(sorted({*archive, *(cause for member in members for cause in member.causes)}))
    return Comparison(
        left=paths[0].name,
        right=paths[1].name,
        left_sha256=sums[0],
        right_sha256=sums[1],
        equal=equal,
        archive=archive,
        members=members,
        identical=sums[0] == sums[1],
        causes=causes,
        reproduced=is_circumstance(causes),
    )


def _members(source: ZipSource) -> dict[str, Member]:
    found: dict[str, Member] = {}
    for member in source.members:
        if member.problem:
            raise InputError(
                f"{source.path.name}: member {member.name!r}: {PROBLEMS[member.problem]}", fix="build it again"
            )
        if member.name in found:
            raise InputError(f"{source.path.name}: member {member.name!r} is in it twice", fix="build it again")
        if not member.is_folder:
            found[member.name] = member
    return found


def _digests(source: ZipSource, members: Mapping[str, Member]) -> dict[str, bytes]:
    """sha256 of every member's content."""
    found = {}
    for name, member in members.items():
        state = hashlib.sha256()
        for piece in _pieces(source, member):
            state.update(piece)
        found[name] = state.digest()
    return found


def _pieces(source: ZipSource, member: Member) -> Iterator[bytes]:
    try:
        yield from source.stream(member)
    except MemberDamage as error:
        raise InputError(
            f"{source.path.name}: member {member.name!r} is damaged: {error}", fix="build it again"
        ) from None


def _extract(source: ZipSource, member: Member, path: Path) -> None:
    with open(path, "wb") as file:
        file.writelines(_pieces(source, member))


def _alone(name: str, left: Member | None, right: Member | None) -> MemberDifference:
    return MemberDifference(
        name=name,
        left_bytes=left.size if left else None,
        right_bytes=right.size if right else None,
        causes=("missing",),
    )


def compare_files(name: str, paths: tuple[Path, Path]) -> MemberDifference:
    """Two unpacked files of one name that have other bytes: sections of binaries, lines of texts, and why."""
    sizes = paths[0].stat().st_size, paths[1].stat().st_size
    binary: BinaryDifference | None = None
    if all(_is_elf(path) for path in paths):
        try:
            binary = compare_binaries(*paths)
        except MalformedBinary:
            return MemberDifference(name=name, left_bytes=sizes[0], right_bytes=sizes[1], causes=("data",))
        causes = binary.causes or ("data",)  # headers, or bytes between sections
        return MemberDifference(name=name, left_bytes=sizes[0], right_bytes=sizes[1], binary=binary, causes=causes)
    if name.endswith(".dist-info/RECORD"):
        return MemberDifference(name=name, left_bytes=sizes[0], right_bytes=sizes[1], causes=("record",))
    if max(sizes) > MAX_TEXT_BYTES:
        return MemberDifference(name=name, left_bytes=sizes[0], right_bytes=sizes[1], causes=("data",))
    lines = [Counter(path.read_bytes().decode("utf-8", "replace").splitlines()) for path in paths]
    texts = explain(*lines)
    return MemberDifference(
        name=name,
        left_bytes=sizes[0],
        right_bytes=sizes[1],
        lines_left=texts.left[:SHOWN],
        lines_right=texts.right[:SHOWN],
        num_lines_left=(lines[0] - lines[1]).total(),
        num_lines_right=(lines[1] - lines[0]).total(),
        causes=tuple(sorted(texts.causes)) if texts.explained and texts.causes else (*sorted(texts.causes), "data"),
    )


def _is_elf(path: Path) -> bool:
    with open(path, "rb") as file:
        return is_elf(file.read(6))


def _archive(left: Path, right: Path) -> Iterator[str]:
    """What differs in how members are kept."""
    with zipfile.ZipFile(left) as one, zipfile.ZipFile(right) as two:
        first, second = ({item.filename: item for item in archive.infolist()} for archive in (one, two))
    common = first.keys() & second.keys()
    if [name for name in first if name in common] != [name for name in second if name in common]:
        yield "member-order"
    if any(first[name].date_time != second[name].date_time for name in common):
        yield "member-date"
    if any(first[name].external_attr != second[name].external_attr for name in common):
        yield "member-mode"
    same = [name for name in common if first[name].CRC == second[name].CRC]
    if any(
        (first[name].compress_type, first[name].compress_size)
        != (second[name].compress_type, second[name].compress_size)
        for name in same
    ):
        yield "packing"


def by_cause(comparison: Comparison) -> dict[str, tuple[str, ...]]:
    """Members by cause, real differences first; the archive's own causes with no member."""
    found: dict[str, list[str]] = defaultdict(list, {cause: [] for cause in comparison.archive})
    for member in comparison.members:
        for cause in member.causes:
            found[cause].append(member.name)
    return {cause: tuple(found[cause]) for cause in sorted(found, key=lambda cause: (cause not in REAL, cause))}
