"""What a release bundle is: its files, ``bundle.json`` and what the signature is over.

::

    RELEASE.md                       read this first
    bundle.json                      what is in it, for programs (schema ``orbit.release/1``)
    release.intoto.json              the decision of the gate, signed; names every other file by its sha256
    SHA256SUMS                       every file but itself and the one above, for ``sha256sum -c``
    provenance.intoto.json           SLSA v1: from what it was made, signed
    gpu-arch-coverage.intoto.json    which GPU finds its machine code in which file, signed
    uv.lock  pyproject.toml  profile.toml
    image/manifest.json  config.json the image's own documents: the first one's sha256 is the digest
    run/                             what ``orbit ship`` left: stage records, audits, SBOMs, kernels, smoke, the seal
    evidence/NAME.intoto.json        statements of other machines, as they were signed there
    definition/                      what a release is by definition: gate.toml, smoke lists, kernel recipes
    qualification/NAME.json          records of ``orbit qualify``
    keys/NAME.pub                    public keys of those who signed; information, never a reason to trust

A path says what a file is (:func:`role_of`); a path that means nothing has no place in a bundle.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal

import msgspec

from orbit.core.records import Record
from orbit.errors import InputError
from orbit.profile.model import Profile
from orbit.release.attest.dsse import SUFFIX
from orbit.release.attest.statement import Statement
from orbit.release.gate.decide import Decision

SCHEMA = "orbit.release/1"
INDEX, PAGE, SUMS, RELEASE = "bundle.json", "RELEASE.md", "SHA256SUMS", f"release{SUFFIX}"
MADE_LAST = (PAGE, INDEX, SUMS, RELEASE)
"""Files that are made when a bundle is written; each is about those that were there before."""
PROVENANCE, COVERAGE = f"provenance{SUFFIX}", f"gpu-arch-coverage{SUFFIX}"
LOCK, PROJECT, PROFILE = "uv.lock", "pyproject.toml", "profile.toml"
MANIFEST, CONFIG = "image/manifest.json", "image/config.json"
RUN, EVIDENCE, KEYS, DEFINITION = "run/", "evidence/", "keys/", "definition/"
GATE = "definition/gate.toml"
SEAL, SUMMARY, KERNELS = "run/evidence.json", "run/summary.json", "run/kernels.json"
AUDIT, IMAGE_AUDIT, SMOKE = "run/audit.json", "run/image-audit.json", "run/smoke.json"
CYCLONEDX, SPDX = "run/sbom.cdx.json", "run/sbom.spdx.json"
REQUIRED = (
    LOCK, PROFILE, MANIFEST, CONFIG, SEAL, SUMMARY, KERNELS, AUDIT, IMAGE_AUDIT, SMOKE, CYCLONEDX, SPDX,
    PROVENANCE, COVERAGE, GATE,
)  # fmt: skip
"""Without these no user could check what a release claims."""

MAX_FILES = 2000
MAX_FILE_BYTES = 64 << 20
MAX_BYTES = 256 << 20
"""Of all files together. A bundle of the cu130 image has some 10 MB."""
MAX_PATH = 200
NAME = r"[A-Za-z0-9][A-Za-z0-9._+@-]*"
PATH = re.compile(rf"{NAME}(/{NAME})*")


class Role(StrEnum):
    """What a file of a bundle is."""

    LOCK = "lock"
    PROJECT = "project"
    PROFILE = "profile"
    IMAGE = "image-document"
    SEAL = "seal"
    KERNELS = "kernel-manifests"
    AUDIT = "audit-report"
    SBOM = "sbom"
    SMOKE = "smoke-report"
    RECORD = "run-record"
    PROVENANCE = "provenance"
    COVERAGE = "gpu-arch-coverage"
    EVIDENCE = "evidence"
    DEFINITION = "definition"
    QUALIFICATION = "qualification-record"
    KEY = "public-key"
    PAGE = "page"


ROLES: tuple[tuple[str, Role], ...] = (
    (re.escape(LOCK), Role.LOCK),
    (re.escape(PROJECT), Role.PROJECT),
    (re.escape(PROFILE), Role.PROFILE),
    (r"image/(manifest|config)\.json", Role.IMAGE),
    (re.escape(SEAL), Role.SEAL),
    (re.escape(KERNELS), Role.KERNELS),
    (rf"({re.escape(AUDIT)}|{re.escape(IMAGE_AUDIT)})", Role.AUDIT),
    (rf"({re.escape(CYCLONEDX)}|{re.escape(SPDX)})", Role.SBOM),
    (re.escape(SMOKE), Role.SMOKE),
    (rf"run/(image/)?{NAME}", Role.RECORD),
    (re.escape(PROVENANCE), Role.PROVENANCE),
    (re.escape(COVERAGE), Role.COVERAGE),
    (rf"evidence/{NAME}{re.escape(SUFFIX)}", Role.EVIDENCE),
    (rf"definition/((smoke|recipes)/)?{NAME}\.toml", Role.DEFINITION),
    (rf"qualification/{NAME}\.json", Role.QUALIFICATION),
    (rf"keys/{NAME}\.pub", Role.KEY),
    (re.escape(PAGE), Role.PAGE),
)
"""Pattern over a whole path -> what it is; the first that fits counts."""


def role_of(path: str) -> Role | None:
    """What the file at ``path`` of a bundle is; None: nothing that belongs in one."""
    if len(path) > MAX_PATH or not PATH.fullmatch(path):
        return None
    return next((role for pattern, role in ROLES if re.fullmatch(pattern, path)), None)


class ImageReference(Record, frozen=True, kw_only=True):
    """The image a release is about."""

    name: str
    """Repository without a registry, ``orbit/cu130``."""
    digest: str
    """Of the manifest, ``sha256:...``."""
    reference: str
    """``name@digest``; a registry goes in front of it."""
    pull_bytes: int
    """Manifest, configuration and layers, as they are transferred."""
    layers: int


class TargetClaim(Record, frozen=True, kw_only=True):
    """What the release says of one kind of GPU."""

    name: str
    """``h100``."""
    devices: tuple[str, ...]
    capability: str
    feature: str
    """Architecture its kernels are compiled for, ``sm_90a``."""
    state: Literal["proven", "unproven"]
    evidence: tuple[str, ...] = ()
    """Files of the bundle that show it: signed on a machine with that GPU."""
    why: str = ""
    """Why it is unproven, in one sentence."""


class BundleFile(Record, frozen=True, kw_only=True):
    """One file of a bundle."""

    path: str
    role: Role
    size: int
    sha256: str


class Index(Record, frozen=True, kw_only=True):
    """``bundle.json``."""

    schema: str = SCHEMA
    profile: str
    version: str
    """Of Orbit, which made it."""
    commit: str
    """Of the checkout it was made from."""
    created: str
    """UTC, ISO 8601, to the second."""
    image: ImageReference
    targets: tuple[TargetClaim, ...]
    """Every target of the profile, in its order."""
    files: tuple[BundleFile, ...]
    """All but this file and the two that are about it, by path."""


class ReleasePredicate(Record, frozen=True, kw_only=True):
    """What is signed as the release: the decision, and the bundle by the hash of each of its files."""

    schema: str = SCHEMA
    decided: str
    """UTC, ISO 8601."""
    decision: Decision
    files: dict[str, str]
    """sha256 of every file of the bundle but this one, by its path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleParts:
    """What a bundle is made of. Equal parts make equal bundles (as far as the signer does)."""

    profile: Profile
    decision: Decision
    """It must say that this is a release; its moment is the bundle's date."""
    files: Mapping[str, bytes]
    """Content by path in the bundle: everything in :data:`REQUIRED` that is not among ``statements``, and what there is
    more. :mod:`orbit.release.bundle.gather` takes it from a run and its checkout."""
    statements: Mapping[str, Statement]
    """Statements that are signed now, with the key of the release, by path."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that was written."""

    folder: Path
    index: Index
    files: Mapping[str, bytes]
    """Everything in it, by path."""


def sha256(data: bytes) -> str:
    """Hex."""
    return hashlib.sha256(data).hexdigest()


def sums(files: Mapping[str, bytes]) -> bytes:
    """``SHA256SUMS`` of these files, as ``sha256sum`` of coreutils writes and reads it."""
    return "".join(f"{sha256(files[path])}  {path}\n" for path in sorted(files)).encode()


def summed(paths: frozenset[str]) -> frozenset[str]:
    """Which of these files ``SHA256SUMS`` lists: what is signed cannot list its own signature."""
    return paths - {SUMS, RELEASE}


def indexed(paths: frozenset[str]) -> frozenset[str]:
    """Which of these files ``bundle.json`` lists."""
    return paths - {INDEX, SUMS, RELEASE}


def parse_index(data: bytes, where: str) -> Index:
    """``bundle.json``. Raises :class:`InputError` for what is none, or one of another version of Orbit."""
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{where}: {error}", fix="download the bundle again") from None
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        raise InputError(
            f"{where}: schema {schema!r} is not known", fix=f"this orbit reads {SCHEMA}: is there a newer one?"
        )
    try:
        return msgspec.convert(found, Index)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {error}", fix="download the bundle again") from None
