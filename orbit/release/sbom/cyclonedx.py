"""An inventory as a CycloneDX 1.6 document (ECMA-424), JSON. Equal images give equal bytes."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from orbit import __version__
from orbit.release.sbom.model import Component, Inventory, Licence

SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"
TYPES = {
    "python": "library",
    "vendored-python": "library",
    "library": "library",
    "static": "library",
    "kernel": "library",
    "orbit": "application",
    "interpreter": "platform",
    "debian": "library",
    "base": "operating-system",
}
PROPERTY = "io.orbit:"
IMAGE = "image"


def document_id(inventory: Inventory) -> uuid.UUID:
    """The id of an image's documents: it follows from the digest alone."""
    return uuid.uuid5(uuid.NAMESPACE_URL, f"oci:{inventory.digest}")


def to_cyclonedx(inventory: Inventory) -> dict[str, Any]:
    """The document."""
    inside: dict[str, list[Component]] = defaultdict(list)
    known = {component.ref for component in inventory.components}
    for component in inventory.components:
        inside[component.inside if component.inside in known and component.kind != "debian" else ""].append(component)
    return {
        "$schema": SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": document_id(inventory).urn,
        "version": 1,
        "metadata": {
            "timestamp": inventory.created,
            "tools": {"components": [{"type": "application", "name": "orbit", "version": __version__}]},
            "component": {
                "type": "container",
                "bom-ref": IMAGE,
                "name": inventory.image,
                "version": inventory.version or inventory.digest,
                "properties": _properties(
                    {"digest": inventory.digest, **{k: str(v) for k, v in inventory.checked.items()}}
                ),
            },
        },
        "components": [_component(item, inside) for item in inside[""]],
        "dependencies": list(_dependencies(inventory)),
    }


def _component(item: Component, inside: Mapping[str, list[Component]]) -> dict[str, Any]:
    licence = item.licence
    notes = dict(item.notes)
    if licence.unknown:
        notes["license.unknown"] = licence.unknown
    pairs = list(notes.items())
    pairs += [("license.said", f"{said.where}: {said.text}") for said in licence.said]
    pairs += [("license.text", f"{text.path} sha256:{text.sha256}") for text in licence.texts]
    pairs += [("license.missing", name) for name in licence.missing]
    found: dict[str, Any] = {
        "type": TYPES[item.kind],
        "bom-ref": item.ref,
        "name": item.name or item.ref,
        "version": item.version,
        "description": item.summary,
        "hashes": [{"alg": "SHA-256", "content": item.sha256}] if item.sha256 else [],
        "licenses": _licences(licence),
        "purl": item.purl,
        "components": [_component(child, inside) for child in inside.get(item.ref, ())],
        "evidence": {"occurrences": [{"location": path} for path in item.paths]} if item.paths else {},
        "properties": [{"name": PROPERTY + "kind", "value": item.kind}, *_listed(pairs)],
    }
    return {key: value for key, value in found.items() if value}


def _licences(licence: Licence) -> list[dict[str, Any]]:
    """The concluded expression; where places disagree, what each says as a name. Nothing is nothing known."""
    if licence.expression:
        return [{"expression": licence.expression, "acknowledgement": "concluded"}]
    return [{"license": {"name": f"{said.where}: {said.text}", "acknowledgement": "declared"}} for said in licence.said]


def _properties(notes: Mapping[str, str]) -> list[dict[str, str]]:
    return _listed(list(notes.items()))


def _listed(pairs: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"name": PROPERTY + name, "value": value} for name, value in sorted(pairs)]


def _dependencies(inventory: Inventory) -> Iterator[dict[str, Any]]:
    tops = sorted(item.ref for item in inventory.components if not item.inside)
    yield {"ref": IMAGE, "dependsOn": tops} if tops else {"ref": IMAGE}
    for item in sorted(inventory.components, key=lambda item: item.ref):
        needs = sorted({*item.depends, *_parts(item, inventory)})
        yield {"ref": item.ref, "dependsOn": needs} if needs else {"ref": item.ref}


def _parts(item: Component, inventory: Inventory) -> Iterator[str]:
    """Packages make up the base: the format has no nesting that keeps them findable, so it depends on them."""
    if item.kind == "base":
        yield from (other.ref for other in inventory.components if other.inside == item.ref)
