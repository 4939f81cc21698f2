"""One file: which entries of its fatbin containers can go, and the file without them.

    plan = plan_file(path, profile.targets, name="torch/lib/libtorch_cuda.so", distribution="torch")
    if plan.layout != "none":
        done = apply_plan(plan, path, out)

Both are pure functions of the file's bytes, the targets and the policy. What a plan promises is read back from the file
that was written, with the audit's readers and its loading model, before that file takes its place.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from orbit.audit.binary.coverage import results_of
from orbit.audit.binary.elf import Elf, MalformedBinary, open_if_elf
from orbit.audit.binary.fatbin import EMBEDDED, SECTIONS, Container
from orbit.core.files import CHUNK_BYTES, open_regular
from orbit.image.slim.edition import Edition, in_place
from orbit.image.slim.elf import Tables, read_tables, require_alone
from orbit.image.slim.entries import decide
from orbit.image.slim.facts import ContainerPlan, EntryPlan, FilePlan, SlimmedFile, SlimRefused
from orbit.image.slim.fatbin import Extents, measure
from orbit.image.slim.references import Unmovable, pointers
from orbit.image.slim.rules import SlimRules, hands_off, rules
from orbit.image.slim.shrink import shrink
from orbit.image.slim.write import LEAVE, write_edition
from orbit.profile.model import GpuTarget, SlimPolicy

NO_CODE = "no device code"
NOTHING = "every entry can be loaded by a target, or stays by policy"


def plan_file(
    path: Path,
    targets: Sequence[GpuTarget],
    *,
    policy: SlimPolicy | None = None,
    name: str = "",
    distribution: str = "",
    known: SlimRules | None = None,
) -> FilePlan:
    """What is to become of the file at ``path``.

    ``name`` is its path relative to site-packages, by which ``kernels/slim.toml`` (or ``known``) judges it and reports
    show it; ``distribution`` the normalised name of its owner. A file that is no ELF file, has no device code, must not
    be touched or has nothing to lose gives a plan with ``layout`` ``none`` and the reason.

    Raises :class:`orbit.audit.binary.elf.MalformedBinary` for a damaged or lying file, OSError as it comes.
    """
    policy = policy or SlimPolicy()
    label = name or path.name
    capabilities = tuple(dict.fromkeys(target.capability for target in targets))
    with open_if_elf(path, label) as elf:
        boxes = measure(elf) if elf is not None else []
        if elf is None or not boxes:
            size = path.stat().st_size
            return FilePlan(
                path=label, sha256="", size=size, targets=capabilities, policy=policy, new_size=size, why_not=NO_CODE
            )
        tables = read_tables(elf)
        containers = tuple(_plan(box, capabilities, policy) for box in boxes)
        require_same_results(label, boxes, containers, capabilities)
        plan = FilePlan(
            path=label,
            sha256=_sha256(path),
            size=elf.size,
            targets=capabilities,
            policy=policy,
            containers=containers,
            new_size=elf.size,
        )
        if why := hands_off(label, distribution, policy, known):
            return msgspec.structs.replace(plan, why_not=why)
        if not any(container.removed_bytes for container in containers):
            return msgspec.structs.replace(plan, why_not=NOTHING)
        edition = _edition(elf, tables, containers, _layout_limit(label, policy, known))
        return msgspec.structs.replace(plan, layout=edition.layout, new_size=edition.size, why_not=edition.why_not)


def apply_plan(plan: FilePlan, source: Path, out: Path) -> SlimmedFile:
    """Write the file that ``plan`` describes to ``out`` (which may be ``source``) with the mode of ``source``.

    Raises :class:`SlimRefused` when ``source`` is not the planned file or the result does not hold what was promised,
    and ValueError for a plan with nothing to do; ``out`` is then what it was before.
    """
    if plan.layout == "none":
        raise ValueError(f"{plan.path}: nothing to do: {plan.why_not}")
    with open_if_elf(source, plan.path) as elf:
        if elf is None or elf.size != plan.size:
            raise SlimRefused(f"{plan.path}: not the file that was planned", fix="plan it again")
        why_not = plan.why_not if plan.layout == "holes" else ""
        edition = _edition(elf, read_tables(elf), plan.containers, why_not)
    if (edition.layout, edition.size) != (plan.layout, plan.new_size):
        raise SlimRefused(f"{plan.path}: not the file that was planned", fix="plan it again")
    check = functools.partial(check_written, plan, named=edition.named)
    done = write_edition(edition, source, out, sha256=plan.sha256, check=check)
    return SlimmedFile(
        path=plan.path,
        original_sha256=plan.sha256,
        sha256=done.sha256,
        original_size=plan.size,
        size=done.size,
        disk_bytes=done.disk_bytes,
        layout=plan.layout,
        removed_entries=plan.removed_entries,
        removed_bytes=plan.removed_bytes,
    )


def _layout_limit(label: str, policy: SlimPolicy, known: SlimRules | None) -> str:
    """Why the file must keep its length by policy; empty when it need not."""
    if policy.layout == "holes":
        return "the policy asks for holes"
    proof = (known or rules()).proof(label)
    if not policy.unproved and proof is not None and proof.layout == "holes":
        return "proved on hardware in place only"
    return ""


def _edition(elf: Elf, tables: Tables, containers: Sequence[ContainerPlan], keep_length: str) -> Edition:
    require_alone(elf, tables, [section for _, section in tables.device((*SECTIONS, *EMBEDDED))])
    if keep_length:
        return in_place(elf.size, containers, keep_length)
    try:
        return shrink(elf, tables, containers)
    except Unmovable as error:
        return in_place(elf.size, containers, str(error))


def _plan(box: Extents, capabilities: tuple[str, ...], policy: SlimPolicy) -> ContainerPlan:
    sizes = [end - start for start, end in box.entries]
    verdicts = decide(box.container, sizes, capabilities, policy)
    return ContainerPlan(
        section=box.container.section,
        index=box.container.index,
        offset=box.container.offset,
        size=box.end - box.container.offset,
        entries=tuple(
            EntryPlan(arch=image.arch, offset=start, size=end - start, keep=keep, reason=reason)
            for image, (start, end), (keep, reason) in zip(box.container.images, box.entries, verdicts, strict=True)
        ),
    )


def kept_of(container: Container, plan: ContainerPlan) -> Container:
    """``container`` with the images that stay."""
    images = tuple(image for image, entry in zip(container.images, plan.entries, strict=True) if entry.keep)
    return msgspec.structs.replace(container, images=images)


def require_same_results(
    label: str, boxes: Sequence[Extents], plans: Sequence[ContainerPlan], capabilities: Sequence[str]
) -> None:
    """The audit's verdict on every container and target, before and after; an emptied container is never right.

    Raises :class:`SlimRefused`: a plan for which it differs is a defect here, and the file is left alone.
    """
    before = [box.container for box in boxes]
    after = [kept_of(container, plan) for container, plan in zip(before, plans, strict=True)]
    emptied = any(old.images and not new.images for old, new in zip(before, after, strict=True))
    if emptied or any(results_of(before, item) != results_of(after, item) for item in capabilities):
        raise SlimRefused(f"{label}: a target would find less in it than before", fix=LEAVE)


def check_written(plan: FilePlan, path: Path, *, named: frozenset[int] = frozenset()) -> None:
    """Read the file written for ``plan`` back; at the virtual addresses ``named`` wrappers must find containers.

    Raises :class:`SlimRefused` when it does not hold what was promised.
    """
    try:
        with open_if_elf(path, plan.path) as elf:
            if elf is None:
                raise SlimRefused(f"{plan.path}: no ELF file was written", fix=LEAVE)
            tables, boxes = read_tables(elf), measure(elf)
            require_alone(elf, tables, [section for _, section in tables.device((*SECTIONS, *EMBEDDED))])
            found = [
                (box.container.section, [image.arch for image in box.container.images], [e - s for s, e in box.entries])
                for box in boxes
            ]
            astray = plan.layout == "shrink" and _astray(elf, tables, boxes, named)
    except (MalformedBinary, Unmovable) as error:
        raise SlimRefused(f"{plan.path}: what was written cannot be read: {error}", fix=LEAVE) from None
    promised = [
        (box.section, [e.arch for e in box.entries if e.keep], [e.size for e in box.entries if e.keep])
        for box in plan.containers
    ]
    if found != promised or astray:
        raise SlimRefused(f"{plan.path}: what was written is not what was planned", fix=LEAVE)


def _astray(elf: Elf, tables: Tables, boxes: Sequence[Extents], named: frozenset[int]) -> bool:
    """Whether a pointer into a device-code section leads to no container, or none leads to one of ``named``."""
    sections = [section for _, section in tables.device(SECTIONS)]
    spans = [(section.address, section.address + section.size) for section in sections]
    starts = {
        box.container.offset - section.offset + section.address
        for box in boxes
        for section in sections
        if section.offset <= box.container.offset < section.offset + section.stored
    }
    targets = {pointer.target for pointer in pointers(elf, tables, spans)}
    return not (named <= targets <= starts)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while block := file.read(CHUNK_BYTES):
            digest.update(block)
    return digest.hexdigest()
