"""Images of every kind are looked into; layers that were read are remembered; damage is found when asked for."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest

from orbit.audit.reports.report import json_schema
from orbit.core.console import Silent
from orbit.core.paths import data_root
from orbit.core.records import canonical
from orbit.core.store import Store
from orbit.errors import InputError
from orbit.image.damage import DamagedImage
from orbit.image.inspect.look import Looked, look
from orbit.image.inspect.records import Inspection
from orbit.image.layout_writer import write_layout
from orbit.profile.model import load_profile
from tests.image.conftest import BuildSmall
from tests.image.inspect.material import HOSTILE, image
from tests.image.test_oci import damage
from tests.writers.images import docker_archive
from tests.writers.tiny_image import file


def looked(spec: Path | str, *, brief: bool = False, verify: bool = False, cache: Path | None = None) -> Looked:
    return look(str(spec), profile=None, cache=cache, brief=brief, verify=verify, progress=Silent())


def test_layers_sizes_and_labels_of_our_own_image(store: Store, build_small: BuildSmall) -> None:
    result = build_small(store)
    facts = looked(result.layout, verify=True).facts
    assert facts.digest == result.digest
    assert [row.name for row in facts.layers] == [layer.name for layer in result.layers]
    assert facts.pull_bytes == sum(layer.size for layer in result.layers)
    assert facts.disk_bytes == sum(layer.tar_bytes for layer in result.layers)
    assert [row.files for row in facts.layers] == [layer.files for layer in result.layers]
    assert facts.labels["io.orbit.targets"] == "h100=sm_90a"
    assert facts.verified
    assert facts.contents is not None
    assert {row.name for row in facts.contents.owners} >= {"torch", "nvidia-cublas", "other-thing"}


def test_verify_finds_what_a_brief_look_does_not(store: Store, build_small: BuildSmall) -> None:
    result = build_small(store)
    damage(result.layout / "blobs" / "sha256" / result.layers[1].digest[7:])
    assert looked(result.layout, brief=True).facts.digest == result.digest
    with pytest.raises(DamagedImage, match=r"layer interpreter \(sha256:\w+\) is damaged"):
        looked(result.layout, brief=True, verify=True)
    with pytest.raises(InputError, match="is damaged: its content is not what its digest says"):
        looked(result.layout)


def test_a_damaged_layer_of_an_archive_is_found(tmp_path: Path) -> None:
    data = docker_archive([[file("a", b"x" * 500)]])
    path = tmp_path / "x.tar"
    path.write_bytes(data.replace(b"x" * 500, b"y" * 500))
    assert looked(path, brief=True).facts.contents is None
    with pytest.raises(DamagedImage):
        looked(path, brief=True, verify=True)


def test_a_layout_of_another_tool_has_no_sizes_but_is_shown(
    store: Store, build_small: BuildSmall, tmp_path: Path
) -> None:
    result = build_small(store)
    manifest = json.loads((result.layout / "blobs" / "sha256" / result.digest[7:]).read_bytes())
    for layer in manifest["layers"]:
        del layer["annotations"]
    foreign = tmp_path / "foreign"
    config = (result.layout / "blobs" / "sha256" / result.config[7:]).read_bytes()
    write_layout(foreign, [], json.dumps(manifest).encode(), config, ref="x")
    for layer in result.layers:
        (foreign / "blobs" / "sha256" / layer.digest[7:]).write_bytes(
            (result.layout / "blobs" / "sha256" / layer.digest[7:]).read_bytes()
        )
    brief = looked(foreign, brief=True).facts
    assert brief.disk_bytes is None
    assert brief.layers[0].files is None
    assert brief.pull_bytes == sum(layer.size for layer in result.layers)
    assert brief.layers[0].name == result.layers[0].name  # from its history
    whole = looked(foreign).facts
    assert whole.disk_bytes == sum(layer.tar_bytes for layer in result.layers)


def test_layers_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbit.audit.images.layer_cache.SETTLE_NS", 0)
    layout = image(tmp_path)
    first = looked(layout, cache=tmp_path / "facts").facts
    monkeypatch.setattr("orbit.audit.images.opened.read_apart", None)
    monkeypatch.setattr("orbit.image.inspect.pull.map_blob", None)
    assert looked(layout, cache=tmp_path / "facts").facts == first


def test_the_profile_says_what_is_used_when_it_is_given(tmp_path: Path) -> None:
    layout = image(tmp_path)
    found = look(
        str(layout), profile=load_profile("cu130"), cache=None, brief=False, verify=False, progress=Silent()
    ).facts.contents
    assert found is not None
    assert [target.name for target in found.targets] == ["h100", "b200"]
    assert {row.arch: row.sass for row in found.architectures}["sm_100 (by file name)"] == ("b200",)


@pytest.mark.parametrize("brief", [True, False])
def test_results_keep_the_published_schema(tmp_path: Path, brief: bool) -> None:
    document = json.loads(canonical(looked(image(tmp_path), brief=brief).facts))
    schema = json.loads((data_root() / "docs/schemas/image-inspect.json").read_bytes())
    assert [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(document)] == []
    document["layers"][0]["pull_bytes"] = "much"
    messages = [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(document)]
    assert any("'much' is not" in message for message in messages)


def test_published_schema_is_current() -> None:
    published = data_root() / "docs" / "schemas" / "image-inspect.json"
    assert published.read_bytes() == json_schema(Inspection), (
        "orbit image inspect --schema > docs/schemas/image-inspect.json"
    )


def test_hostile_names_can_be_written_and_read_back(tmp_path: Path) -> None:
    facts = looked(image(tmp_path)).facts
    assert facts.contents is not None
    assert any(HOSTILE in row.path for row in facts.contents.largest)
    assert msgspec.json.decode(canonical(facts), type=Inspection) == facts
