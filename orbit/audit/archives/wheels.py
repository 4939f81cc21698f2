"""Read wheels as if an installer had put them together into one environment, without unpacking anything.

Every member is one stream: hashed, and read for device code and dynamic facts while it passes. What an installer would
write where is the binary distribution specification (PEP 427 and 491): the root and ``*.data/{purelib,platlib}`` go to
site-packages, ``scripts`` to bin, ``headers`` to include, ``data`` to the prefix.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from orbit.audit.archives.wheel_disorder import Seen, disorders_of
from orbit.audit.archives.wheel_names import MACHINE, WheelName, WheelSet, pythons_of, read_name, wheel_sets
from orbit.audit.archives.zip_source import Member, MemberDamage, NotZip, ZipSource
from orbit.audit.binary.dynamic import Export
from orbit.audit.facts import Disorder, Distribution, Environment, FileFact, Layout, SharedObject, Tree, join
from orbit.audit.files.objects import select_exports
from orbit.audit.files.scan import Scanned, is_text, may_be_elf, scan_member
from orbit.audit.files.texts import HEAD_BYTES, MAX_BYTES, is_head_wanted, is_wanted, read_text
from orbit.audit.installed.dists import owners_of, read_dist
from orbit.audit.installed.environment import variables_of
from orbit.audit.installed.hashing import SUPPORTED
from orbit.audit.known.policies import base_glibc
from orbit.core.console import Progress
from orbit.core.digests import record_digest
from orbit.errors import InputError
from orbit.profile.model import Profile

FOLDER_MODE, FILE_MODE, PROGRAM_MODE = 0o040755, 0o100644, 0o100755
"""What installers give to folders and files, whatever the archive says, but for the executable bit."""
MAX_KEPT_BYTES = 128 << 20
"""Small files whose content rules read, all of one wheel together; real ones have less than 5 MB."""
MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class WheelFacts:
    """What one wheel gave; files by installed path."""

    name: WheelName
    dist: Distribution
    files: Mapping[str, FileFact]
    digests: Mapping[str, str]
    """In RECORD's spelling, of the files that RECORD has a digest for."""
    objects: tuple[SharedObject, ...]
    exports: Mapping[str, frozenset[Export]]
    texts: Mapping[str, bytes]
    damaged: Mapping[str, str]


def profile_sets(paths: Sequence[Path], profile: Profile) -> tuple[WheelSet, ...]:
    """The wheels of files and folders, grouped: first what an installer would take together for ``profile``, then
    every other one alone with the reason. Raises :class:`InputError` when there is none."""
    files = [path for given in paths for path in (sorted(given.glob("*.whl")) if given.is_dir() else [given])]
    if not files:
        named = ", ".join(map(str, paths))
        raise InputError(f"{named or 'no path'}: no wheel in it", fix="give *.whl files, or a folder that holds them")
    return wheel_sets(files, _python(profile.python), MACHINE, base_glibc())


def read_wheels(paths: Sequence[Path], profile: Profile, progress: Progress) -> Environment:
    """All facts about wheels (files, or folders of them) as if they were installed together.

    Of several wheels of one project only the one that :func:`profile_sets` takes is read; the disorder ``beside`` of
    its distribution names the others. A file that is no wheel is damaged; alone it raises :class:`InputError`.
    """
    first, *others = profile_sets(paths, profile)
    python = _layout_python(first.paths, profile)
    layout = Layout(Path("/"), f"lib/python{python[0]}.{python[1]}/site-packages", python, "")
    found: list[WheelFacts] = []
    damaged: dict[str, str] = {}
    for number, path in enumerate(first.paths):
        progress.advance("wheels read", number, len(first.paths))
        try:
            found.append(_read_wheel(path, layout))
        except NotZip as error:
            if len(first.paths) == 1:
                raise
            damaged[path.name] = error.why
        except OSError as error:
            if len(first.paths) == 1:
                raise InputError(f"{path}: {error.strerror}", fix="give a wheel that can be read") from None
            damaged[path.name] = error.strerror or str(error)
    found.sort(key=lambda facts: (facts.dist.name, facts.dist.folder))
    dists = tuple(_with_others(facts, others) for facts in _lost(found))
    return combine(layout, found, dists, damaged, profile)


def members_of(paths: Sequence[Path], profile: Profile, layout: Layout) -> dict[str, tuple[Path, str]]:
    """(wheel, name of the member) by the path at which :func:`read_wheels` has it; of two owners the last."""
    found: dict[str, tuple[str, Path, str]] = {}
    for wheel in profile_sets(paths, profile)[0].paths:
        name = read_name(wheel.name)
        with contextlib.suppress(NotZip, OSError), ZipSource(wheel) as source:
            archive = [member.name for member in source.members if not member.is_folder]
            info = info_folder(archive, name)
            data = f"{info.removesuffix('.dist-info')}.data"
            for key in archive:
                where = place_of(key, data, name.name, layout)
                found[where] = max(found.get(where, ("", wheel, key)), (name.name, wheel, key))
    return {where: (wheel, key) for where, (_name, wheel, key) in found.items() if where}


def read_manifest(wheel: Path) -> bytes | None:
    """The build manifest that lies beside a wheel: ``<wheel>.manifest.json``, or ``manifest.json`` when it names the
    wheel. None when there is none."""
    for path in (wheel.with_name(f"{wheel.name}.{MANIFEST}"), wheel.with_name(MANIFEST)):
        content = read_text(wheel.parent, path.name, MAX_MANIFEST_BYTES)
        if content is None:
            continue
        try:
            named = msgspec.json.decode(content, type=dict[str, object]).get("wheel")
        except (msgspec.DecodeError, RecursionError):
            named = None
        if named == wheel.name or path.name != MANIFEST:
            return content
    return None


def _python(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor)


def _layout_python(paths: Iterable[Path], profile: Profile) -> tuple[int, int]:
    """The Python they are judged for: the profile's; for wheels that name others only, the newest of these."""
    wanted = _python(profile.python)
    named: set[tuple[int, int]] = set()
    for path in paths:
        name = read_name(path.name)
        pythons = pythons_of(name)
        if not pythons or wanted in pythons or any(tag.abi == "abi3" for tag in name.tags):
            return wanted
        named |= pythons
    return max(named, default=wanted)


def _read_wheel(path: Path, layout: Layout) -> WheelFacts:
    name = read_name(path.name)
    with ZipSource(path) as source:
        members = _affordable(source.members)
        archive = {member.name: member for member in members if not member.is_folder}
        info = info_folder(archive, name)

        def read(key: str) -> bytes | None:
            member = archive.get(key)
            return source.read(member, MAX_BYTES) if member else None

        dist = read_dist(info, read)
        data = f"{info.removesuffix('.dist-info')}.data"
        places = {key: where for key in archive if (where := place_of(key, data, name.name or dist.name, layout))}
        usable = {places[key]: archive[key] for key in places if not archive[key].problem}
        digested = {places[row.path]: row.algorithm for row in dist.rows if row.digest and row.path in places}
        scans = _scan(source, usable, digested)
        texts = {where: scan.text for where, scan in scans.items() if scan.text is not None and is_wanted(where)}
        for where, member in usable.items():
            if is_head_wanted(where) and (head := source.head(member, HEAD_BYTES)) is not None:
                texts[where] = head
        broken = {where for where, scan in scans.items() if scan.damaged}
        libraries = {where for where in broken if may_be_elf(where, usable[where].size, usable[where].mode)}
        seen = Seen(members, frozenset(places), frozenset(usable[where].name for where in broken - libraries))
        disorders = disorders_of(name, seen, dist, read)
    if (manifest := read_manifest(path)) is not None:
        texts[f"{path.name}.{MANIFEST}"] = manifest
    rows = tuple(row._replace(path=places.get(row.path, join(layout.site, row.path))) for row in dist.rows)
    return WheelFacts(
        name=name,
        dist=replace(
            dist, folder=join(layout.site, info), site=layout.site, rows=rows, wheel_file=path.name, disorders=disorders
        ),
        files={where: fact_of(member) for where, member in usable.items()},
        digests={where: scan.digest for where, scan in scans.items() if scan.digest and where in digested},
        objects=tuple(scan.object for scan in scans.values() if scan.object is not None),
        exports={where: scan.exports for where, scan in scans.items() if scan.exports is not None},
        texts=texts,
        damaged={where: scans[where].damaged for where in libraries},
    )


def _scan(source: ZipSource, members: Mapping[str, Member], algorithms: Mapping[str, str]) -> dict[str, Scanned]:
    """One pass over every member, the large ones first, on all processors (unpacking and hashing need no lock)."""
    order = sorted(members, key=lambda where: -members[where].size)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = pool.map(lambda where: _scan_one(source, where, members[where], algorithms.get(where, "")), order)
        return dict(zip(order, found, strict=True))


def _scan_one(source: ZipSource, where: str, member: Member, algorithm: str) -> Scanned:
    """What one member holds; one that cannot be unpacked is damaged."""
    hashed = algorithm == "sha256"
    try:
        found = scan_member(where, member.size, member.mode, source.stream(member), hashed=hashed)
        while found.missing:
            again = source.stream(member)
            found = scan_member(where, member.size, member.mode, again, hashed=hashed, keep=found.missing)
        if algorithm in SUPPORTED and not hashed:
            state = hashlib.new(algorithm)
            for piece in source.stream(member):
                state.update(piece)
            found = replace(found, digest=record_digest(state.digest()))
    except MemberDamage as error:
        return Scanned(damaged=f"{where}: {error}")
    return found


def _affordable(members: Sequence[Member]) -> tuple[Member, ...]:
    """The members, those marked as a bomb whose content would be kept beyond :data:`MAX_KEPT_BYTES`."""
    found, kept = [], 0
    for member in members:
        kept += member.size if member.size <= MAX_BYTES and is_text(f"site-packages/{member.name}") else 0
        found.append(replace(member, problem="bomb") if kept > MAX_KEPT_BYTES and not member.problem else member)
    return tuple(found)


def place_of(key: str, data: str, project: str, layout: Layout) -> str:
    """Where an installer writes a member; empty for a part of ``*.data`` that it does not know."""
    if not key.startswith(f"{data}/"):
        return join(layout.site, key)
    scheme, _, rest = key.removeprefix(f"{data}/").partition("/")
    folders = {
        "purelib": layout.site,
        "platlib": layout.site,
        "scripts": "bin",
        "headers": "include/site/python{}.{}/{}".format(*layout.python, project),
        "data": "",
    }
    return join(folders[scheme], rest) if scheme in folders and rest else ""


def info_folder(archive: Iterable[str], name: WheelName) -> str:
    """The ``*.dist-info`` folder: of several the one that is called like the file; made up from the file name when
    there is none."""
    found = {key.partition("/")[0] for key in archive if key.partition("/")[0].endswith(".dist-info")}
    stem = "-".join(name.file.removesuffix(".whl").split("-")[:2])
    return max(found, key=lambda folder: (folder == f"{stem}.dist-info", folder), default=f"{stem}.dist-info")


def fact_of(member: Member) -> FileFact:
    """What an installer makes of a member."""
    return FileFact(PROGRAM_MODE if member.executable else FILE_MODE, 0, 0, member.size, (0, 0, 0, 0))


def _lost(found: Sequence[WheelFacts]) -> Iterator[WheelFacts]:
    """Each wheel; one whose file is replaced by a later wheel's has its own comparison with RECORD here (``differs``),
    because the facts of a path are those of the wheel that comes last."""
    winner = {where: number for number, facts in enumerate(found) for where in facts.files}
    for number, facts in enumerate(found):
        differing = tuple(
            row.path
            for row in facts.dist.rows
            if winner.get(row.path, number) != number and facts.digests.get(row.path, row.digest) != row.digest
        )
        dist = facts.dist
        if differing:
            dist = replace(dist, disorders=(*dist.disorders, Disorder("differs", differing)))
        yield replace(facts, dist=dist)


def _with_others(facts: WheelFacts, others: Iterable[WheelSet]) -> Distribution:
    """The distribution, with the wheels of the same project that are not in the set named."""
    names = [path.name for item in others for path in item.paths if read_name(path.name).name == facts.name.name]
    if not names:
        return facts.dist
    return replace(facts.dist, disorders=(*facts.dist.disorders, Disorder("beside", tuple(sorted(names)))))


def combine(
    layout: Layout,
    found: Sequence[WheelFacts],
    dists: tuple[Distribution, ...],
    damaged: dict[str, str],
    profile: Profile,
) -> Environment:
    """The wheels in one tree. Of files with one path the last wheel's is there, as after an installation."""
    folder = FileFact(FOLDER_MODE, 0, 0, 0, (0, 0, 0, 0))
    entries: dict[str, FileFact] = {"": folder}
    owners: dict[str, str] = {}
    objects: dict[str, SharedObject] = {}
    exports: dict[str, frozenset[Export]] = {}
    digests: dict[str, str] = {}
    texts: dict[str, bytes] = {}
    for facts in found:
        for where in facts.files:
            for table in (objects, exports, digests, texts, damaged):
                table.pop(where, None)
            owners.setdefault(where, facts.dist.name)
        entries |= facts.files
        objects |= {item.path: item for item in facts.objects}
        exports |= facts.exports
        digests |= facts.digests
        texts |= facts.texts
        damaged |= facts.damaged
    for where in list(entries):
        parent = where.rpartition("/")[0]
        while parent not in entries or not entries[parent].is_folder:
            entries[parent] = folder
            parent = parent.rpartition("/")[0]
    ordered = tuple(objects[path] for path in sorted(objects))
    return Environment(
        layout=layout,
        tree=Tree(entries, {}, (), ()),
        dists=dists,
        objects=ordered,
        exports=select_exports(ordered, exports),
        damaged=damaged,
        num_remembered=0,
        digests=digests,
        owners=owners_of(dists) | owners,
        kind="wheels",
        variables=variables_of(profile),
        texts=texts,
    )
