"""``orbit image slim``: the plain image and the slim one of a profile, and what lies between them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from orbit.core.console import Progress
from orbit.core.files import remove_tree
from orbit.core.store import Entry, Store
from orbit.env.record import read_environment
from orbit.env.takeover import SITE
from orbit.image.build import Wheelhouse, build_image
from orbit.image.slim.report import SlimReport, compare_layers, disk_bytes, of_plans, read_evidence
from orbit.image.slim.tree import SlimRecord, capabilities, plan_tree, slim_environment
from orbit.profile.model import Profile, SlimPolicy


def slim_plan(profile: Profile, environment: Entry, *, progress: Progress) -> SlimReport:
    """What :func:`slim_image` would do to every file with device code; nothing is written."""
    policy = profile.image.slim or SlimPolicy()
    prefix = environment.path / "prefix"
    files = of_plans(plan_tree(prefix, profile, policy, progress=progress))
    slim = SlimRecord(
        environment=read_environment(prefix).identity,
        targets=tuple(capabilities(profile.targets)),
        policy=policy,
        files=files,
    )
    before = disk_bytes(prefix / SITE, files)
    return SlimReport(profile=profile.name, slim=slim, disk_before=before, disk_after=before)


def slim_image(
    profile: Profile,
    root: Path,
    environment: Entry,
    wheelhouse: Wheelhouse,
    store: Store,
    *,
    out: Path,
    progress: Progress,
) -> SlimReport:
    """Build the slim image of ``profile`` (by ``profile.image.slim``) into ``out`` and compare it with the plain one.

    Raises what :func:`orbit.image.build.build_image` and :func:`orbit.image.slim.tree.slim_environment` raise.
    """
    policy = profile.image.slim or SlimPolicy()
    made = slim_environment(profile, environment, store, policy=policy, progress=progress)
    usual = msgspec.structs.replace(profile, image=msgspec.structs.replace(profile.image, slim=None))
    slim = build_image(usual, root, made, wheelhouse, store, out=out, progress=progress)
    scratch = store.scratch("plain")
    try:
        plain = build_image(usual, root, environment, wheelhouse, store, out=scratch / "image", progress=progress)
    finally:
        remove_tree(scratch)
    changed = made.path / "prefix"
    evidence = read_evidence(changed)
    return SlimReport(
        profile=profile.name,
        slim=evidence,
        disk_before=disk_bytes(environment.path / "prefix" / SITE, evidence.files),
        disk_after=disk_bytes(changed / SITE, evidence.files),
        plain_digest=plain.digest,
        digest=slim.digest,
        layout=str(out),
        layers=compare_layers(plain, slim),
    )
