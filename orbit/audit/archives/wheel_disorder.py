"""Where a wheel contradicts itself: file name, metadata, RECORD and members compared with each other."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from packaging.utils import canonicalize_name
from packaging.version import Version

from orbit.audit.archives.wheel_names import WheelName, read_tags
from orbit.audit.archives.zip_source import Member
from orbit.audit.facts import Disorder, Distribution
from orbit.audit.installed.dists import read_headers
from orbit.audit.installed.hashing import SUPPORTED

SIGNATURES = ("RECORD", "RECORD.jws", "RECORD.p7s")
"""Members that RECORD need not hash, or not list at all."""
MAX_WHEEL_TAGS = 4096


@dataclass(frozen=True, slots=True)
class Seen:
    """The members of an archive, and what became of them."""

    members: Sequence[Member]
    placed: frozenset[str]
    """Names of the members that an installer writes somewhere."""
    broken: frozenset[str]
    """Names of the members that could not be unpacked (libraries left out: those are damaged files)."""


def disorders_of(
    name: WheelName, seen: Seen, dist: Distribution, read: Callable[[str], bytes | None]
) -> tuple[Disorder, ...]:
    """Everything that contradicts something else. ``dist`` is the one read from the archive, paths as in it."""
    return tuple(
        Disorder(kind, tuple(names))
        for kind, names in (*_metadata(name, seen, dist, read), *_members(seen), *_record(seen, dist))
        if names
    )


def _metadata(
    name: WheelName, seen: Seen, dist: Distribution, read: Callable[[str], bytes | None]
) -> Iterator[tuple[str, list[str]]]:
    """File name against dist-info folder, METADATA and WHEEL."""
    yield "file-name", [name.problem] if name.problem else []
    there = {member.name for member in seen.members}
    folders = sorted({key.partition("/")[0] for key in there if key.partition("/")[0].endswith(".dist-info")})
    yield "dist-info", folders if len(folders) > 1 else []
    yield "metadata", [key for key in ("METADATA", "WHEEL", "RECORD") if f"{dist.folder}/{key}" not in there]
    if name.problem:
        return
    metadata, wheel = read_headers(read(f"{dist.folder}/METADATA")), read_headers(read(f"{dist.folder}/WHEEL"))
    folder_name, _, folder_version = dist.folder.removesuffix(".dist-info").rpartition("-")
    named = [folder_name, *metadata.get("name", [])[:1]]
    yield "name", [name.name, *named] if {canonicalize_name(text) for text in named} - {name.name} else []
    versions = [folder_version, *metadata.get("version", [])[:1]]
    yield (
        "version",
        [name.version, *versions] if {_version(text) for text in versions} - {_version(name.version)} else [],
    )
    lines = wheel.get("tag", [])
    stated, ours = read_tags(lines[:MAX_WHEEL_TAGS]), {str(tag) for tag in name.tags}
    yield "tags", [" ".join(sorted(ours)), " ".join(sorted(stated))] if lines and stated != ours else []
    written = wheel.get("wheel-version", ["1.0"])[0]
    yield "wheel-version", [written] if written.partition(".")[0] != "1" else []


def _version(text: str) -> Version | str:
    """A version as it compares (``1.0`` and ``1.0.0`` are one); in file names an underscore stands for a dash."""
    try:
        return Version(text.replace("_", "-"))
    except ValueError:  # no version, or a number of thousands of digits
        return text


def _members(seen: Seen) -> Iterator[tuple[str, list[str]]]:
    """Members against each other."""
    by_problem: dict[str, list[str]] = defaultdict(list)
    for member in seen.members:
        if member.problem:
            by_problem[member.problem].append(member.name)
    yield from by_problem.items()
    yield "damaged", sorted(seen.broken)
    files = [member.name for member in seen.members if not member.is_folder and member.problem != "unsafe"]
    yield "scheme", sorted({key for key in files if key not in seen.placed})
    yield "duplicate", sorted(key for key, count in Counter(files).items() if count > 1)
    folded: dict[str, set[str]] = defaultdict(set)
    for key in files:
        folded[key.casefold()].add(key)
    yield "case", sorted(key for names in folded.values() if len(names) > 1 for key in names)
    # a folder is also what some file lies in
    parents = {"/".join(parts[:end]) for key in files for parts in [key.split("/")] for end in range(1, len(parts))}
    yield "collision", sorted(key for key in set(files) if key in parents)


def _record(seen: Seen, dist: Distribution) -> Iterator[tuple[str, list[str]]]:
    """RECORD against members. What is listed and absent, or of other content, is for the rule record-hash."""
    if dist.problem:
        return
    own = {f"{dist.folder}/{key}" for key in SIGNATURES}
    listed = {row.path for row in dist.rows}
    files = {member.name for member in seen.members if not member.is_folder and not member.problem}
    yield "unlisted", sorted(files - listed - own)
    yield (
        "unhashed",
        sorted(
            row.path
            for row in dist.rows
            if row.path not in own and row.path in files and row.algorithm not in SUPPORTED
        ),
    )
    rows: dict[str, set[str]] = defaultdict(set)
    for row in dist.rows:
        rows[row.path].add(row.digest)
    yield "two-rows", sorted(path for path, digests in rows.items() if len(digests) > 1)
