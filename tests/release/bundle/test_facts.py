"""Single files of a bundle as facts, and what is wrong with them said by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from orbit.errors import InputError
from orbit.release.bundle import facts
from orbit.release.bundle.facts import UnknownLicence
from tests.release.bundle import forge
from tests.release.bundle.world import World


@pytest.fixture(scope="module")
def files(world: World) -> dict[str, bytes]:
    """A bundle's."""
    return forge.load(world.place / "bundle")


def test_the_image_by_its_own_documents(world: World, files: dict[str, bytes]) -> None:
    image = facts.image_of(files, "orbit/probe")
    manifest = json.loads(files["image/manifest.json"])
    assert image.digest == world.digest
    assert image.layers == 2
    layers = sum(item["size"] for item in manifest["layers"])
    assert image.pull_bytes == layers + len(files["image/manifest.json"]) + len(files["image/config.json"])
    assert facts.labels_of(files)["io.orbit.profile"] == "probe"


def test_a_configuration_without_labels_has_none(files: dict[str, bytes]) -> None:
    for config in (b"{}", b'{"config": null}', b'{"config": {"Labels": null}}'):
        assert facts.labels_of({**files, "image/config.json": config}) == {}


READERS: list[tuple[str, Callable[[dict[str, bytes]], Any]]] = [
    ("profile.toml", facts.profile_of),
    ("run/summary.json", facts.summary_of),
    ("run/evidence.json", facts.seal_of),
    ("run/kernels.json", facts.kernels_of),
    ("run/smoke.json", facts.smoke_of),
    ("run/audit.json", facts.audits_of),
    ("image/manifest.json", facts.manifest_of),
    ("image/config.json", facts.config_of),
    ("provenance.intoto.json", lambda files: facts.statement_of(files, "provenance.intoto.json")),
]


@pytest.mark.parametrize(("path", "reader"), READERS, ids=[path for path, _ in READERS])
@pytest.mark.parametrize("data", [None, b"", b"[", b"\xff\xfe", b"[1]", b"null", b"{" * 3000])
def test_whatever_is_in_a_file_the_error_names_it(
    files: dict[str, bytes], path: str, reader: Callable[[dict[str, bytes]], Any], data: bytes | None
) -> None:
    assert reader(files) is not None
    broken = {name: content for name, content in files.items() if name != path}
    if data is not None:
        broken[path] = data
    if path == "profile.toml" and data == b"":
        path = "profile.toml: "  # an empty TOML file is one
    with pytest.raises(InputError, match=path.split(":")[0].replace(".", r"\.")):
        reader(broken)


def test_an_envelope_is_spelt_in_one_way(files: dict[str, bytes]) -> None:
    path = "release.intoto.json"
    envelope = facts.envelope_of(files, path)
    assert facts.statement_of(files, path).predicate_type == "urn:orbit:predicate:release:1"
    assert envelope.signatures
    spaced = json.dumps(json.loads(files[path])).encode()
    with pytest.raises(InputError, match="it was edited"):
        facts.envelope_of({**files, path: spaced}, path)


def test_licences_that_nobody_knows_are_found_at_any_depth(files: dict[str, bytes]) -> None:
    found = facts.unknown_licences(files["run/sbom.cdx.json"], "x")
    assert found == (UnknownLicence("debian", "libc6", "2.36-9", "nothing in it says one"),)
    inner = {
        "name": "inner",
        "properties": [
            {"name": "io.orbit:kind", "value": "python"},
            {"name": "io.orbit:license.unknown", "value": "why"},
        ],
    }
    document = {"components": [{"name": "outer", "components": [{"components": [inner]}]}]}
    assert facts.unknown_licences(json.dumps(document).encode(), "x") == (UnknownLicence("python", "inner", "", "why"),)


def test_components_are_counted_by_kind(files: dict[str, bytes]) -> None:
    counts = facts.counts_by_kind(json.loads(files["run/sbom.cdx.json"]))
    assert counts == {"base": 1, "debian": 1, "kernel": 1, "python": 1}
    odd: Any
    for odd in ([], None, {"components": [1, "x", None]}):
        assert facts.counts_by_kind(odd) == {}


def test_evidence_is_what_lies_in_its_folder(files: dict[str, bytes]) -> None:
    assert facts.evidence_paths(files) == ("evidence/qualification.intoto.json", "evidence/smoke-h100.intoto.json")
