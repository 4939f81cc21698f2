"""CycloneDX 1.6, by CycloneDX's own schema."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from orbit.release.sbom.cyclonedx import to_cyclonedx
from orbit.release.sbom.write import render
from tests.release.sbom.documents import check_documents, cyclonedx_problems
from tests.release.sbom.material import SITE, make, one, taken


def every(components: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [item for one in components for item in (one, *every(one.get("components", [])))]


def test_the_document_is_valid_and_whole(tmp_path: Path) -> None:
    inventory = taken(make(tmp_path / "image"))
    document, _ = check_documents(inventory)
    found = {item["bom-ref"]: item for item in every(document["components"])}
    assert set(found) == {item.ref for item in inventory.components}
    numeric = found[f"/{SITE}/numeric-2.0.dist-info"]
    assert numeric["licenses"] == [{"expression": "MIT", "acknowledgement": "concluded"}]
    assert numeric["hashes"] == [{"alg": "SHA-256", "content": "1" * 64}]
    assert {item["name"] for item in numeric["components"]} == {"inner", "libgraft.so.62"}
    odd = found[f"/{SITE}/odd_one-0.1.dist-info"]
    assert odd["licenses"] == [{"license": {"name": "License: BSD", "acknowledgement": "declared"}}]
    needs = {item["ref"]: item.get("dependsOn", []) for item in document["dependencies"]}
    assert needs[one(inventory, "libfoo1").ref] == [one(inventory, "libbar2").ref]
    assert needs["base"] == ["deb:libbar2:amd64", "deb:libfoo1:amd64"]


def test_the_number_follows_from_the_digest_alone(tmp_path: Path) -> None:
    inventory = taken(make(tmp_path / "image"))
    document = to_cyclonedx(inventory)
    assert document["serialNumber"] == f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, 'oci:' + inventory.digest)}"
    assert document["metadata"]["timestamp"] == "1980-01-01T00:00:00Z"


def test_equal_images_give_equal_bytes_wherever_they_lie(tmp_path: Path) -> None:
    one, two = taken(make(tmp_path / "one")), taken(make(tmp_path / "other" / "two"))
    for form in ("cyclonedx", "spdx"):
        assert render(one, form) == render(two, form)


@pytest.mark.parametrize("key", ["bomFormat", "serialNumber"])
def test_the_check_sees_what_is_wrong(tmp_path: Path, key: str) -> None:
    document = to_cyclonedx(taken(make(tmp_path / "image")))
    assert cyclonedx_problems(json.dumps({**document, key: "nonsense"}))
    document["components"][0]["type"] = "nonsense"
    assert cyclonedx_problems(json.dumps(document))
