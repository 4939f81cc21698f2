"""What is in a wheel, ours or anybody's: names, tags and whether they hold, device code by architecture, needs.

Read with the audit's readers and judged by its rules; nothing is unpacked to disk and nothing in it is run. The store's
build manifest, where it lies beside the wheel, is compared with what is found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from orbit.audit.archives.wheels import read_manifest, read_wheels
from orbit.audit.archives.zip_source import ZipSource
from orbit.audit.binary.coverage import arch_counts, container_archs
from orbit.audit.binary.fatbin import Image
from orbit.audit.deep.depth import depth_rows, read_depth
from orbit.audit.deep.depth_sources import wheel_opener
from orbit.audit.evaluate import evaluate
from orbit.audit.facts import Environment, SharedObject, printable
from orbit.audit.known.policy import Policy, load_policy
from orbit.audit.models.loader import loader_of
from orbit.audit.reports.report import DepthLibrary
from orbit.audit.rules import RULES
from orbit.audit.rules.abi.wheel_tag import tags_of
from orbit.audit.targets import Target
from orbit.core.console import Progress
from orbit.core.files import sha256_file
from orbit.core.findings import Finding, Skipped
from orbit.core.records import Record
from orbit.kernels.manifest import BuildManifest
from orbit.kernels.wheels.instructions import InstructionRow, count_instructions
from orbit.kernels.wheels.tags import glibc_need, platform_of
from orbit.profile.model import Profile

SCHEMA = 1
JUDGED = ("wheel-archive", "record-hash", "damaged-binary", "wheel-tag", "stable-abi", "run-path", "build-manifest")
"""Rules of the audit that a wheel alone can be held to."""


class ArchSize(Record, frozen=True, kw_only=True):
    """Device code for one architecture."""

    arch: str
    """``sm_90a``; ``compute_90`` is PTX, which a driver compiles."""
    images: int
    stored_bytes: int
    """In the file, mostly compressed."""
    unpacked_bytes: int


class BinaryRow(Record, frozen=True, kw_only=True):
    """One ELF file."""

    file: str
    size_bytes: int
    units: int
    """Fatbin containers with code in them: one for each translation unit with device code."""
    empty_units: int
    """Containers without code, which nvcc makes of sources without kernels."""
    archs: tuple[ArchSize, ...]
    glibc: str
    """Newest glibc version it needs, ``2.34``; empty for none."""
    needed: dict[str, str]
    """By soname, where the library comes from: ``loader``, ``base``, ``driver``, ``outside`` (another wheel's), ..."""
    run_paths: tuple[str, ...]
    """Entries of DT_RUNPATH, or of DT_RPATH when there is none."""


class ManifestState(Record, frozen=True, kw_only=True):
    """What a build manifest says, held against the wheel."""

    recipe: str
    requested: tuple[str, ...]
    """Architectures that were asked for."""
    compiled: tuple[str, ...]
    """Architectures the compiler was given, over all units."""
    found: tuple[str, ...]
    """Architectures in the wheel."""
    units: int
    """Translation units in the compiler's log."""
    agrees: bool
    differences: tuple[str, ...]
    """Why not: one sentence each."""


class Description(Record, frozen=True, kw_only=True):
    """Everything that is known about one wheel."""

    schema: int = SCHEMA
    wheel: str
    """File name."""
    sha256: str
    size_bytes: int
    unpacked_bytes: int
    files: int
    name: str
    version: str
    tags: tuple[str, ...]
    fits: str
    """The platform tag that its binaries keep; empty without binaries."""
    decides: tuple[str, ...]
    """What keeps it from fitting an older system."""
    archs: tuple[ArchSize, ...]
    """Of all files together."""
    units: int
    binaries: tuple[BinaryRow, ...]
    manifest: ManifestState | None
    """None: no manifest lies beside it."""
    kernels: tuple[DepthLibrary, ...] = ()
    """Kernels by file and target of the profile, when they were asked for."""
    instructions: tuple[InstructionRow, ...] = ()
    findings: tuple[Finding, ...]
    """What the audit's rules about single wheels say."""
    skipped: tuple[Skipped, ...] = ()


def describe_wheel(
    path: Path,
    profile: Profile,
    progress: Progress,
    *,
    kernels: bool = False,
    sass: bool = False,
    nvdisasm: Path | None = None,
) -> Description:
    """Describe the wheel at ``path``.

    ``kernels`` unpacks the images that the profile's targets would load and counts kernels, and those that do nothing.
    ``sass`` counts families of instructions in all code for the targets' architectures, checked with ``nvdisasm`` on a
    part of it. Raises :class:`InputError` for a file that is no wheel.
    """
    env = read_wheels([path], profile, progress)
    policy = load_policy(profile)
    target = Target("wheels", str(path), (path,))
    opener = wheel_opener(target, env, profile)
    libraries: tuple[DepthLibrary, ...] = ()
    if kernels:
        depth = read_depth(env.layout.prefix, env.objects, profile.targets, progress, open_bytes=opener)
        libraries = depth_rows(depth, lambda where: printable(env.in_site(where)))
    rows: tuple[InstructionRow, ...] = ()
    if sass:
        archs = sorted({arch for gpu in profile.targets for arch in (gpu.sass, gpu.feature)})
        rows = tuple(
            msgspec.structs.replace(row, file=printable(env.in_site(row.file)))
            for row in count_instructions(env.objects, archs, opener, nvdisasm=nvdisasm)
        )
    return _description(path, env, policy, libraries, rows, skipped=tuple(_skipped(kernels, sass, nvdisasm)))


def judge_wheel(path: Path, profile: Profile, progress: Progress) -> tuple[Finding, ...]:
    """What the audit's rules about single wheels (:data:`JUDGED`) say of the wheel at ``path``.

    Raises :class:`InputError` for a file that is no wheel.
    """
    return evaluate(read_wheels([path], profile, progress), load_policy(profile), [RULES[name] for name in JUDGED])


def _description(
    path: Path,
    env: Environment,
    policy: Policy,
    libraries: tuple[DepthLibrary, ...],
    rows: tuple[InstructionRow, ...],
    *,
    skipped: tuple[Skipped, ...],
) -> Description:
    (dist,) = env.dists
    with ZipSource(path) as source:
        members = [member for member in source.members if not member.is_folder]
    platform = platform_of(env.objects) if len({item.machine for item in env.objects}) == 1 else None
    loader = loader_of(env, policy)
    boxes = [box for item in env.objects for box in item.containers if not box.bare]
    return Description(
        wheel=path.name,
        sha256=sha256_file(path),
        size_bytes=path.stat().st_size,
        unpacked_bytes=sum(member.size for member in members),
        files=len(members),
        name=dist.name,
        version=dist.version,
        tags=tuple(sorted(tags_of(dist))),
        fits=platform.tag if platform else "",
        decides=tuple(_in_site(env, text) for text in platform.decides) if platform else (),
        archs=_sizes(image for box in boxes for image in box.images),
        units=len(boxes),
        binaries=tuple(
            _binary(env, item, {soname: found.how for soname, found in loader.needed(item)}) for item in env.objects
        ),
        manifest=_manifest(path, env),
        kernels=libraries,
        instructions=rows,
        findings=evaluate(env, policy, [RULES[name] for name in JUDGED]),
        skipped=skipped,
    )


def _skipped(kernels: bool, sass: bool, nvdisasm: Path | None) -> Iterable[Skipped]:
    if not kernels:
        yield Skipped(what="kernels", reason="not asked for", estimate="seconds for each GB of device code")
    if not sass:
        yield Skipped(what="instructions", reason="not asked for")
    elif nvdisasm is None:
        yield Skipped(what="check with a disassembler", reason="no nvdisasm at hand: it is a wheel of the lock")


def _in_site(env: Environment, text: str) -> str:
    return text.replace(f"{env.layout.site}/", "")


def _binary(env: Environment, item: SharedObject, needed: Mapping[str, str]) -> BinaryRow:
    units = [box for box in item.containers if not box.bare]
    dynamic = item.dynamic
    return BinaryRow(
        file=printable(env.in_site(item.path)),
        size_bytes=env.tree.entries[item.path].size,
        units=len(units),
        empty_units=len(item.containers) - len(units),
        archs=_sizes(image for box in units for image in box.images),
        glibc=glibc_need(item),
        needed={printable(soname): how for soname, how in needed.items()},
        run_paths=tuple(printable(entry) for entry in (dynamic.runpath or dynamic.rpath)) if dynamic else (),
    )


def _sizes(images: Iterable[Image]) -> tuple[ArchSize, ...]:
    """Counts and bytes by architecture, machine code first."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for image in images:
        row = counts[image.arch]
        row[0] += 1
        row[1] += image.size
        row[2] += image.uncompressed_size or image.size
    return tuple(
        ArchSize(arch=arch, images=counts[arch][0], stored_bytes=counts[arch][1], unpacked_bytes=counts[arch][2])
        for arch in sorted(counts, key=_order)
    )


def _order(arch: str) -> tuple[bool, int, str]:
    """``sm_90a`` before ``sm_100a``, both before PTX."""
    kind, _, number = arch.partition("_")
    return kind != "sm", int(number.rstrip("af")) if number.rstrip("af").isdecimal() else 0, arch


def _manifest(path: Path, env: Environment) -> ManifestState | None:
    content = read_manifest(path)
    if content is None:
        return None
    try:
        stated = msgspec.json.decode(content, type=BuildManifest)
    except (msgspec.DecodeError, RecursionError) as error:
        return ManifestState(
            recipe="", requested=(), compiled=(), found=(), units=0, agrees=False,
            differences=(f"the manifest cannot be read: {error}",),
        )  # fmt: skip
    requested = tuple(sorted((pair.rpartition(":")[2] for pair in stated.requested), key=_order))
    given = {pair.rpartition("code=")[2] for unit in stated.units if unit.status == 0 for pair in unit.effective}
    found = sorted(arch_counts(box for item in env.objects for box in item.containers if not box.bare), key=_order)
    differences = tuple(_differences(path, env, stated, frozenset(requested), frozenset(given)))
    return ManifestState(
        recipe=stated.recipe,
        requested=requested,
        compiled=tuple(sorted(given, key=_order)),
        found=tuple(found),
        units=sum(unit.kind == "compile" and unit.status == 0 for unit in stated.units),
        agrees=not differences,
        differences=differences,
    )


def _differences(
    path: Path, env: Environment, stated: BuildManifest, requested: frozenset[str], given: frozenset[str]
) -> Iterable[str]:
    """Requested, compiled and found against each other, and the manifest against the file."""
    if stated.wheel_sha256 != sha256_file(path):
        yield "it is the manifest of another file of this name: the sha256 differs"
    if stated.units and given != requested:
        yield f"compiled for {', '.join(sorted(given, key=_order)) or 'nothing'}"
    filled = {item.path: [container_archs(box) for box in item.containers if not box.bare] for item in env.objects}
    wrong = {name: sum(archs != requested for archs in each) for name, each in filled.items()}
    # what static libraries brought along is in the recipe, by number
    if requested and sum(wrong.values()) != stated.linked_units:
        for name, count in wrong.items():
            if count:
                yield f"{env.in_site(name)}: {count} of {len(filled[name])} containers hold other architectures"
    there = {env.in_site(item.path): arch_counts(item.containers) for item in env.objects}
    for binary in stated.found:
        if binary.images != there.get(binary.file, {}):
            yield f"{binary.file}: not the images that the manifest lists"
