"""Package URLs against the reference implementation."""

from __future__ import annotations

import pytest
from packageurl import PackageURL

from orbit.release.sbom.purl import purl


@pytest.mark.parametrize(
    ("kind", "name", "version", "namespace", "qualifiers"),
    [
        ("pypi", "torch", "2.11.0+cu130", "", {}),
        ("deb", "libstdc++6", "12.2.0-14+deb12u1", "debian", {"arch": "amd64", "distro": "bookworm"}),
        ("deb", "cpp", "4:12.2.0-3", "debian", {"arch": "amd64", "distro": ""}),
        ("deb", "bash", "5.2.15-2+b10~x", "debian", {}),
        ("generic", "odd name with?marks#and@more", "", "", {}),
    ],
)
def test_it_is_what_the_reference_makes(
    kind: str, name: str, version: str, namespace: str, qualifiers: dict[str, str]
) -> None:
    made = purl(kind, name, version, namespace=namespace, qualifiers=qualifiers)
    back = PackageURL.from_string(made)
    kept = {key: value for key, value in qualifiers.items() if value}
    assert back.to_dict(encode=False, empty="") == {
        "type": kind,
        "namespace": namespace,
        "name": name,
        "version": version,
        "qualifiers": kept or "",
        "subpath": "",
    }
    assert made == PackageURL(kind, namespace, name, version, kept).to_string()
