"""Everything in an image, put together: components with what they depend on, and what does not add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from orbit.audit.facts import Distribution
from orbit.core.console import Progress
from orbit.core.findings import Finding
from orbit.kernels.manifest import BuildManifest
from orbit.release.sbom import debian, libraries, parts, python
from orbit.release.sbom.contents import Contents, read_contents
from orbit.release.sbom.knowledge import Knowledge, knowledge
from orbit.release.sbom.model import KINDS, Component, Inventory, tidy
from orbit.release.sbom.record import Stated, read_record
from orbit.release.sbom.requires import dependencies

TITLE, VERSION = "org.opencontainers.image.title", "org.opencontainers.image.version"
PYTHON_SERIES = "3.12"


def take_inventory(
    spec: str, *, cache: Path | None, progress: Progress, manifests: Sequence[BuildManifest] = ()
) -> Inventory:
    """The inventory of the image that ``spec`` names, see :func:`orbit.audit.images.opened.open_image`.

    ``manifests``: of the kernels, which the image itself does not have. With ``cache`` (a folder) layers that were
    read before are not read again. Raises :class:`InputError` for what is
    no image; whatever an image has in it becomes components and findings, never an exception.
    """
    return inventory_of(read_contents(spec, cache=cache, progress=progress), knowledge(), manifests)


def inventory_of(contents: Contents, known: Knowledge, manifests: Sequence[BuildManifest] = ()) -> Inventory:
    """The inventory of an image that was read."""
    stated = read_record(contents)
    dists = python.installed(contents)
    packages = debian.read_packages(contents)
    tops = {dist.name: python.reference(dist) for dist in dists if python.is_top(dist)}
    system = parts.base(contents, packages)
    found = [
        *_with_needs(python.components(contents, dists, stated, known), dists, stated, tops),
        *libraries.components(contents, tops),
        *parts.kernels(contents, stated, tops, manifests),
        *_by_reference(parts.interpreters(contents, stated, known), packages),
        *debian.components(contents, packages, system.ref if system else "", known),
        *([system] if system else []),
    ]
    order = list(KINDS)
    components = sorted(found, key=lambda item: (order.index(item.kind), item.name, item.ref))
    findings = [
        *stated.findings,
        *python.count(contents, dists, stated),
        *debian.count(contents, packages),
    ]
    labels = contents.ref.facts.labels
    return Inventory(
        image=tidy(labels.get(TITLE, "")) or tidy(contents.spec),
        version=tidy(labels.get(VERSION, "")),
        digest=contents.ref.facts.digest,
        created=contents.created,
        components=tuple(components),
        findings=tuple(sorted(findings, key=_order)),
        checked=_checked(contents, stated, dists, packages),
    )


def _order(finding: Finding) -> tuple[str, str, str]:
    return finding.rule, finding.subject, finding.message


def _with_needs(
    found: Iterable[Component], dists: tuple[Distribution, ...], stated: Stated, references: Mapping[str, str]
) -> Iterable[Component]:
    """The distributions with the references of what they require."""
    version = stated.record.python if stated.record else PYTHON_SERIES
    tops = [dist for dist in dists if python.is_top(dist)]
    edges = dependencies(tops, version, frozenset({python.OWN}))
    owners = {python.reference(dist): dist.name for dist in tops}
    for item in found:
        needs = tuple(sorted(references[name] for name in edges.get(owners.get(item.ref, ""), ())))
        yield msgspec.structs.replace(item, depends=needs)


def _by_reference(found: Iterable[Component], packages: tuple[debian.Package, ...]) -> Iterable[Component]:
    """Names of Debian packages among the dependencies, as references."""
    references = {item.package.name: item.ref for item in packages}
    for item in found:
        needs = tuple(sorted(references[name] for name in item.depends if name in references))
        yield msgspec.structs.replace(item, depends=needs)


def _checked(
    contents: Contents, stated: Stated, dists: tuple[Distribution, ...], packages: tuple[debian.Package, ...]
) -> dict[str, int]:
    """What was counted, each from its own source."""
    folders = Counter(python.is_top(dist) for dist in dists)
    return {
        "record-distributions": len(stated.record.distributions) if stated.record else 0,
        "dist-info-folders": folders[True],
        "dist-info-folders-inside-others": folders[False],
        "recorded-files": sum(len(dist.rows) for dist in dists if python.is_top(dist)),
        "dpkg-packages": len(packages),
        "dpkg-files": sum(len(item.listed or ()) for item in packages),
        "files": len(contents.layers),
        "layers": len(contents.ref.layers),
    }
