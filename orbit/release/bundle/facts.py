"""Single files of a bundle as typed facts. Each function takes the content by path; all raise :class:`InputError`.

Nothing is trusted here beyond its form. What the files say of each other is for
:mod:`orbit.release.bundle.claims`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from orbit.audit.images.image_source import Config
from orbit.audit.reports.report import TargetReport
from orbit.core.records import convert, parse_toml
from orbit.errors import InputError
from orbit.image.oci import MANIFEST_TYPE, Manifest
from orbit.image.smoke.report import SmokeReport
from orbit.profile.model import Profile
from orbit.release.attest.dsse import Envelope, envelope_bytes, parse_envelope
from orbit.release.attest.statement import Statement, parse_statement
from orbit.release.attest.strict import strict_json
from orbit.release.bundle.model import (
    AUDIT,
    CONFIG,
    EVIDENCE,
    IMAGE_AUDIT,
    KERNELS,
    MANIFEST,
    PROFILE,
    SEAL,
    SMOKE,
    SUMMARY,
    ImageReference,
    sha256,
)
from orbit.release.evidence import KernelManifests, Summary
from orbit.release.sbom.cyclonedx import PROPERTY
from orbit.release.seal import Seal

type Files = Mapping[str, bytes]

AGAIN = "download the bundle again"
MARK = "license.unknown"
"""Property of a component in CycloneDX whose licence nobody knows."""


@dataclass(frozen=True, slots=True)
class UnknownLicence:
    """A component whose licence is not known."""

    kind: str
    name: str
    version: str
    why: str


def content(files: Files, path: str) -> bytes:
    """The bytes of a file that must be there."""
    if path not in files:
        raise InputError(f"{path}: is not in the bundle", fix=AGAIN)
    return files[path]


def record[T](files: Files, path: str, kind: type[T]) -> T:
    """A JSON file as ``kind``."""
    return convert(strict_json(content(files, path), path), kind, path)


def profile_of(files: Files) -> Profile:
    """``profile.toml``."""
    return convert(parse_toml(content(files, PROFILE), Path(PROFILE)), Profile, PROFILE)


def summary_of(files: Files) -> Summary:
    """The run."""
    return record(files, SUMMARY, Summary)


def seal_of(files: Files) -> Seal:
    """The seal of the run; whether it holds is another question."""
    return record(files, SEAL, Seal)


def kernels_of(files: Files) -> KernelManifests:
    """The manifests of the kernels."""
    return record(files, KERNELS, KernelManifests)


def smoke_of(files: Files) -> SmokeReport:
    """The smoke report of the run, made without a GPU."""
    return record(files, SMOKE, SmokeReport)


def audits_of(files: Files) -> dict[str, TargetReport]:
    """Both audit reports, by path."""
    return {path: record(files, path, TargetReport) for path in (AUDIT, IMAGE_AUDIT)}


def manifest_of(files: Files) -> Manifest:
    """The manifest of the image."""
    found = _document(files, MANIFEST, Manifest)
    if found.media_type != MANIFEST_TYPE:
        raise InputError(f"{MANIFEST}: mediaType is {found.media_type!r}, not {MANIFEST_TYPE}", fix=AGAIN)
    return found


def config_of(files: Files) -> Config:
    """The configuration of the image."""
    return _document(files, CONFIG, Config)


def _document[T](files: Files, path: str, kind: type[T]) -> T:
    """An image's document, whose standard asks readers to pass over what they do not know."""
    try:
        return msgspec.json.decode(content(files, path), type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{path}: {error}", fix=AGAIN) from None


def image_of(files: Files, name: str) -> ImageReference:
    """The image by its own documents; raises :class:`InputError` when they do not belong together."""
    manifest = manifest_of(files)
    config = content(files, CONFIG)
    if manifest.config.digest != f"sha256:{sha256(config)}" or manifest.config.size != len(config):
        raise InputError(f"{CONFIG}: is not the configuration that {MANIFEST} names", fix=AGAIN)
    digest = f"sha256:{sha256(files[MANIFEST])}"
    return ImageReference(
        name=name,
        digest=digest,
        reference=f"{name}@{digest}",
        pull_bytes=len(files[MANIFEST]) + len(config) + sum(layer.size for layer in manifest.layers),
        layers=len(manifest.layers),
    )


def labels_of(files: Files) -> Mapping[str, str]:
    """The labels of the image."""
    run = config_of(files).config
    return (run.labels if run else None) or {}


def envelope_of(files: Files, path: str) -> Envelope:
    """A signed file. One that is spelt otherwise than Orbit spells it was edited, even where that changes nothing."""
    data = content(files, path)
    envelope = parse_envelope(data, path)
    if envelope_bytes(envelope) != data:
        raise InputError(f"{path}: is not written as Orbit writes it: it was edited", fix=AGAIN)
    return envelope


def statement_of(files: Files, path: str) -> Statement:
    """What a signed file says; whether the signature holds is another question."""
    return parse_statement(envelope_of(files, path).payload, path)


def evidence_paths(files: Files) -> tuple[str, ...]:
    """Statements of other machines."""
    return tuple(sorted(path for path in files if path.startswith(EVIDENCE)))


def unknown_licences(cyclonedx: bytes, where: str) -> tuple[UnknownLicence, ...]:
    """Every component of a bill of materials whose licence is unknown, with the reason, by kind and name."""
    found = []
    for component in components(strict_json(cyclonedx, where)):
        notes = {item.get("name"): item.get("value") for item in component.get("properties", ())}
        why = notes.get(PROPERTY + MARK)
        if why:
            kind = notes.get(f"{PROPERTY}kind") or ""
            found.append(UnknownLicence(kind, component.get("name", ""), component.get("version", ""), why))
    return tuple(sorted(found, key=lambda item: (item.kind, item.name, item.version)))


def components(document: Any) -> Iterator[Mapping[str, Any]]:
    """Every component of a CycloneDX document, those inside others too."""
    waiting = list(document.get("components", ()) if isinstance(document, Mapping) else ())
    while waiting:
        component = waiting.pop()
        if isinstance(component, Mapping):
            waiting += component.get("components", ())
            yield component


def counts_by_kind(document: Any) -> dict[str, int]:
    """Number of components by kind, as the document marks them."""
    counts: dict[str, int] = {}
    for component in components(document):
        kinds = [item["value"] for item in component.get("properties", ()) if item.get("name") == f"{PROPERTY}kind"]
        for kind in kinds:
            counts[kind] = counts.get(kind, 0) + 1
    return dict(sorted(counts.items()))
