"""SPDX 2.3, by SPDX's own validator."""

from __future__ import annotations

from pathlib import Path

from orbit.release.sbom.spdx import to_spdx
from tests.release.sbom.documents import check_documents, spdx_problems
from tests.release.sbom.material import make, taken


def test_the_document_is_valid_and_whole(tmp_path: Path) -> None:
    inventory = taken(make(tmp_path / "image"))
    _, document = check_documents(inventory)
    packages = {item["name"]: item for item in document["packages"] if "kernels" not in item["name"]}
    numeric, foo = packages["numeric"], packages["libfoo1"]
    assert numeric["licenseConcluded"] == numeric["licenseDeclared"] == "MIT"
    assert packages["odd-one"]["licenseConcluded"] == "NOASSERTION"
    assert foo["licenseConcluded"] == "(GPL-2.0-or-later OR MIT) AND LicenseRef-Debian-Odd-License"
    assert foo["externalRefs"][0]["referenceLocator"] == (
        "pkg:deb/debian/libfoo1@1:1.0-2%2Bb1?arch=amd64&distro=bookworm"
    )
    (own,) = document["hasExtractedLicensingInfos"]
    assert own["licenseId"] == "LicenseRef-Debian-Odd-License"
    assert own["extractedText"] == "Its text is in the image: /usr/share/doc/libfoo1/copyright"
    kinds = {
        (item["spdxElementId"], item["relationshipType"], item["relatedSpdxElement"])
        for item in document["relationships"]
    }
    assert (foo["SPDXID"], "DEPENDS_ON", packages["libbar2"]["SPDXID"]) in kinds
    assert (numeric["SPDXID"], "CONTAINS", packages["inner"]["SPDXID"]) in kinds
    assert ("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Image") in kinds


def test_the_check_sees_what_is_wrong(tmp_path: Path) -> None:
    document = to_spdx(taken(make(tmp_path / "image")))
    document["packages"][1]["licenseConcluded"] = "No-Such-License-9"
    document["documentNamespace"] = "nowhere"
    assert len(spdx_problems(document)) >= 2
