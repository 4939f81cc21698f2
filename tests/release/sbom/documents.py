"""Documents held against what the formats' own makers check."""

from __future__ import annotations

import json
import warnings
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from orbit.release.sbom.model import Inventory
from orbit.release.sbom.write import render

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the libraries that spdx-tools imports
    from spdx_tools.spdx.parser.jsonlikedict.json_like_dict_parser import JsonLikeDictParser
    from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document


def cyclonedx_problems(text: str) -> list[str]:
    """What the schema of CycloneDX 1.6 says against ``text``."""
    found = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    return [] if found is None else [str(found)[:500]]


def spdx_problems(document: dict[str, Any]) -> list[str]:
    """What SPDX's validator says against a document."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parsed = JsonLikeDictParser().parse(document)
        return [message.validation_message for message in validate_full_spdx_document(parsed)]


def check_documents(inventory: Inventory) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both documents of ``inventory``, valid and with every component in them."""
    cyclonedx, spdx = render(inventory, "cyclonedx").decode(), json.loads(render(inventory, "spdx"))
    assert cyclonedx_problems(cyclonedx) == []
    assert spdx_problems(spdx) == []
    document = json.loads(cyclonedx)
    refs = {item["ref"] for item in document["dependencies"]}
    assert refs == {"image", *(item.ref for item in inventory.components)}
    assert len(spdx["packages"]) == len(inventory.components) + 1
    return document, spdx
