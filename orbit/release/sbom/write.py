"""The documents of an image as files, and as one function for a release."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from orbit.core.console import Progress
from orbit.core.files import write_atomic
from orbit.core.findings import Finding
from orbit.core.records import Record
from orbit.kernels.manifest import BuildManifest
from orbit.release.sbom.cyclonedx import to_cyclonedx
from orbit.release.sbom.inventory import take_inventory
from orbit.release.sbom.knowledge import UNKNOWN, knowledge
from orbit.release.sbom.model import Inventory
from orbit.release.sbom.spdx import to_spdx

FORMATS: Mapping[str, Callable[[Inventory], dict[str, Any]]] = {"cyclonedx": to_cyclonedx, "spdx": to_spdx}
FILES = {"cyclonedx": "sbom.cdx.json", "spdx": "sbom.spdx.json"}
SCHEMA = "orbit.image-sbom/1"


class SbomResult(Record, frozen=True, kw_only=True):
    """What a bill of materials came to."""

    schema: str = SCHEMA
    image: str
    digest: str
    files: dict[str, str] = {}
    """Format -> file that was written."""
    components: dict[str, int]
    """By kind."""
    checked: dict[str, int]
    """What was counted against each other."""
    groups: dict[str, int]
    """Distributions, packages and interpreters by the group of their licence."""
    findings: tuple[Finding, ...]


def render(inventory: Inventory, form: str) -> bytes:
    """The document of that format, indented, with a newline at its end."""
    return msgspec.json.format(msgspec.json.encode(FORMATS[form](inventory)), indent=1) + b"\n"


def summarise(inventory: Inventory, files: Mapping[str, Path] | None = None) -> SbomResult:
    """The result for an inventory."""
    known = knowledge()
    groups = dict.fromkeys((*(group.name for group in known.groups), UNKNOWN), 0)
    for component in inventory.components:
        if component.kind in LICENSED:
            groups[known.group(component.licence.expression)] += 1
    return SbomResult(
        image=inventory.image,
        digest=inventory.digest,
        files={form: str(path) for form, path in (files or {}).items()},
        components=inventory.counts,
        checked=inventory.checked,
        groups=groups,
        findings=inventory.findings,
    )


LICENSED = ("python", "vendored-python", "orbit", "interpreter", "debian")
"""Kinds with a licence of their own to state."""


def write_sboms(
    layout: Path | str,
    folder: Path,
    *,
    cache: Path | None,
    progress: Progress,
    manifests: Sequence[BuildManifest] = (),
) -> SbomResult:
    """Write ``sbom.cdx.json`` and ``sbom.spdx.json`` of the image at ``layout`` into ``folder``, which is made.

    Returns counts and findings: any finding means that the image does not hold what it says. ``manifests``: of the
    kernels in it. ``cache``: the folder of
    the facts of layers (``cache_root() / "facts"``). Raises :class:`InputError` for what is no image.
    """
    inventory = take_inventory(str(layout), cache=cache, progress=progress, manifests=manifests)
    folder.mkdir(parents=True, exist_ok=True)
    files = {form: folder / name for form, name in FILES.items()}
    for form, path in files.items():
        write_atomic(path, render(inventory, form))
    return summarise(inventory, files)
