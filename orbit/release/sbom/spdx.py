"""An inventory as an SPDX 2.3 document (ISO/IEC 5962 lineage), JSON. Equal images give equal bytes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from orbit import __version__
from orbit.release.sbom.cyclonedx import document_id
from orbit.release.sbom.expressions import licences_in
from orbit.release.sbom.model import Component, Inventory, Licence

NOTHING = "NOASSERTION"
DOCUMENT, IMAGE = "SPDXRef-DOCUMENT", "SPDXRef-Image"
NAMESPACE = "https://spdx.org/spdxdocs"
"""SPDX's own place for documents that nobody serves (2.3, clause 6.5)."""
PURPOSES = {"orbit": "APPLICATION", "base": "OPERATING-SYSTEM"}
NOT_IN_ID = re.compile(r"[^A-Za-z0-9.-]+")


def to_spdx(inventory: Inventory) -> dict[str, Any]:
    """The document."""
    ids = {item.ref: _id(item) for item in inventory.components}
    name = NOT_IN_ID.sub("-", inventory.image).strip("-") or "image"
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": DOCUMENT,
        "name": inventory.image or "image",
        "documentNamespace": f"{NAMESPACE}/{name}-{document_id(inventory)}",
        "creationInfo": {"created": inventory.created, "creators": [f"Tool: orbit-{__version__}"]},
        "packages": [_image(inventory), *(_package(item, ids[item.ref]) for item in inventory.components)],
        "hasExtractedLicensingInfos": list(_own_licences(inventory)),
        "relationships": list(_relationships(inventory, ids)),
    }


def _id(item: Component) -> str:
    """An identifier that follows from the reference; the digest keeps those apart whose names look alike."""
    mark = hashlib.sha256(item.ref.encode()).hexdigest()[:12]
    return f"SPDXRef-{item.kind}-{NOT_IN_ID.sub('-', item.name)[:60].strip('-')}-{mark}"


def _image(inventory: Inventory) -> dict[str, Any]:
    return {
        "SPDXID": IMAGE,
        "name": inventory.image or "image",
        "versionInfo": inventory.version or inventory.digest,
        "downloadLocation": NOTHING,
        "filesAnalyzed": False,
        "primaryPackagePurpose": "CONTAINER",
        "licenseConcluded": NOTHING,
        "licenseDeclared": NOTHING,
        "copyrightText": NOTHING,
        "checksums": [{"algorithm": "SHA256", "checksumValue": inventory.digest.removeprefix("sha256:")}],
        "comment": "; ".join(f"{key}: {value}" for key, value in sorted(inventory.checked.items())),
    }


def _package(item: Component, identifier: str) -> dict[str, Any]:
    licence = item.licence
    found: dict[str, Any] = {
        "SPDXID": identifier,
        "name": item.name or item.ref,
        "versionInfo": item.version,
        "downloadLocation": NOTHING,
        "filesAnalyzed": False,
        "primaryPackagePurpose": PURPOSES.get(item.kind, "LIBRARY"),
        "licenseConcluded": licence.expression or NOTHING,
        "licenseDeclared": licence.declared or NOTHING,
        "licenseComments": _licence_comment(licence),
        "copyrightText": NOTHING,
        "summary": item.summary,
        "checksums": [{"algorithm": "SHA256", "checksumValue": item.sha256}] if item.sha256 else [],
        "externalRefs": [
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": item.purl}
        ]
        if item.purl
        else [],
        "sourceInfo": "; ".join(item.paths),
        "comment": "; ".join([f"kind: {item.kind}", *(f"{key}: {text}" for key, text in sorted(item.notes.items()))]),
    }
    return {key: value for key, value in found.items() if value or key == "filesAnalyzed"}


def _licence_comment(licence: Licence) -> str:
    parts = [f"unknown: {licence.unknown}"] if licence.unknown else []
    parts += [f"{said.where}: {said.text}" for said in licence.said]
    parts += [f"text: {text.path}" for text in licence.texts]
    parts += [f"missing: {name}" for name in licence.missing]
    return "; ".join(parts)


def _own_licences(inventory: Inventory) -> Iterator[dict[str, Any]]:
    """Every licence without an SPDX id, with where its text is in the image."""
    places: dict[str, set[str]] = {}
    for item in inventory.components:
        for expression in (item.licence.expression, item.licence.declared):
            for licence in licences_in(expression):
                plain = licence.partition(" WITH ")[0]
                if plain.startswith("LicenseRef-"):
                    places.setdefault(plain, set()).update(text.path for text in item.licence.texts)
    for name, paths in sorted(places.items()):
        where = ", ".join(sorted(paths))
        text = f"Its text is in the image: {where}" if where else "The image has no text of it."
        yield {"licenseId": name, "name": name.removeprefix("LicenseRef-"), "extractedText": text}


def _relationships(inventory: Inventory, ids: Mapping[str, str]) -> Iterator[dict[str, str]]:
    yield _relation(DOCUMENT, "DESCRIBES", IMAGE)
    for item in inventory.components:
        yield _relation(ids.get(item.inside, IMAGE), "CONTAINS", ids[item.ref])
    for item in inventory.components:
        for needed in item.depends:
            if needed in ids:
                yield _relation(ids[item.ref], "DEPENDS_ON", ids[needed])


def _relation(one: str, kind: str, other: str) -> dict[str, str]:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
