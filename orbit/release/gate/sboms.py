"""What a bill of materials says of itself, read from the finished document: which image, and how many components."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from orbit.core.files import read_file
from orbit.core.records import MAX_BYTES
from orbit.errors import InputError
from orbit.release.attest.strict import strict_json
from orbit.release.gate.facts import SbomFacts
from orbit.release.sbom.cyclonedx import PROPERTY
from orbit.release.sbom.spdx import IMAGE

HEX = re.compile(r"[0-9a-f]{64}")
AGAIN = "make it again: orbit image sbom"


def read_sbom(path: Path, form: str) -> SbomFacts:
    """The facts of the document at ``path``, ``cyclonedx`` or ``spdx``. Raises :class:`InputError` for what is none."""
    return parse_sbom(read_file(path, MAX_BYTES), form, path.name)


def parse_sbom(data: bytes, form: str, file: str) -> SbomFacts:
    """The facts of a document; ``file`` names it. Raises :class:`InputError` for what is none."""
    try:
        digest, components = READERS[form](strict_json(data, file))
    except (KeyError, TypeError, IndexError, AttributeError, StopIteration, ValueError):
        raise InputError(f"{file}: not a bill of materials in {form} as Orbit writes it", fix=AGAIN) from None
    digest = digest.removeprefix("sha256:")
    if not HEX.fullmatch(digest):
        raise InputError(f"{file}: names no image by its digest", fix=AGAIN)
    return SbomFacts(format=form, file=file, digest=f"sha256:{digest}", components=components)


def _cyclonedx(data: Any) -> tuple[str, int]:
    """CycloneDX: the digest is a property of the image's component; components nest."""
    if data["bomFormat"] != "CycloneDX":
        raise ValueError
    properties = data["metadata"]["component"]["properties"]
    digest = next(item["value"] for item in properties if item["name"] == f"{PROPERTY}digest")
    return digest, sum(1 for _ in _nested(data["components"]))


def _nested(components: Any) -> Iterator[Any]:
    """Every component, those inside others too."""
    waiting = list(components)
    while waiting:
        component = waiting.pop()
        waiting += component.get("components", ())
        yield component


def _spdx(data: Any) -> tuple[str, int]:
    """SPDX: the image is one of the packages, and no component."""
    if not data["spdxVersion"].startswith("SPDX-"):
        raise ValueError
    packages = data["packages"]
    image = next(item for item in packages if item["SPDXID"] == IMAGE)
    digest = next(item["checksumValue"] for item in image["checksums"] if item["algorithm"] == "SHA256")
    return digest, len(packages) - 1


READERS: Mapping[str, Callable[[Any], tuple[str, int]]] = {"cyclonedx": _cyclonedx, "spdx": _spdx}
