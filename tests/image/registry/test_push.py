"""Pushing an image: what travels, the order, and the name at the very end."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.errors import CheckFailed, InputError, MissingError
from orbit.image.damage import DamagedImage
from orbit.image.oci import MANIFEST_TYPE, read_layout
from orbit.image.registry.push import outgoing, plan_push, push
from orbit.image.registry.reference import parse_reference
from tests.image.registry.conftest import QUICK
from tests.image.registry.fake import FakeRegistry


def test_the_name_comes_after_every_blob(registry: FakeRegistry, layout: Path) -> None:
    result = push(layout, parse_reference(f"{registry.host}/a:1"), progress=Silent(), patience=QUICK)
    assert result.digest == read_layout(layout).digest
    puts = [path.partition("?")[0] for method, path, _headers in registry.log if method == "PUT"]
    assert [("manifests" in path) for path in puts] == [False, False, False, True]
    assert registry.manifests["a", "1"][0] == MANIFEST_TYPE


def test_a_second_push_moves_nothing(registry: FakeRegistry, layout: Path) -> None:
    reference = parse_reference(f"{registry.host}/a:1")
    push(layout, reference, progress=Silent(), patience=QUICK)
    registry.log.clear()
    again = push(layout, reference, progress=Silent(), patience=QUICK)
    assert ({blob.state for blob in again.blobs}, again.moved_bytes) == ({"there"}, 0)
    assert registry.asked("POST") == []


def test_by_digest_without_a_tag(registry: FakeRegistry, layout: Path) -> None:
    digest = read_layout(layout).digest
    push(layout, parse_reference(f"{registry.host}/a@{digest}"), progress=Silent(), patience=QUICK)
    assert ("a", digest) in registry.manifests
    with pytest.raises(InputError, match="not sha256:0000"):
        push(layout, parse_reference(f"{registry.host}/a@sha256:{'0' * 64}"), progress=Silent(), patience=QUICK)


def test_a_plan_changes_nothing(registry: FakeRegistry, layout: Path) -> None:
    image = read_layout(layout)
    registry.put_blob("a", image.blob(image.layers[0]).read_bytes())
    plan = plan_push(layout, parse_reference(f"{registry.host}/a:1"), progress=Silent())
    assert {blob.name: blob.state for blob in plan.blobs} == {"0": "there", "1": "missing", "config": "missing"}
    assert plan.moved_bytes == image.layers[1].size + image.manifest.config.size
    assert {method for method, _path, _headers in registry.log} == {"GET", "HEAD"}


def test_a_name_that_brings_something_else_is_told(registry: FakeRegistry, layout: Path) -> None:
    registry.fault("GET", "/manifests/", "lie")
    with pytest.raises(CheckFailed, match="the manifest that came is"):
        push(layout, parse_reference(f"{registry.host}/a:1"), progress=Silent(), patience=QUICK)


def test_a_refused_manifest_is_told(registry: FakeRegistry, layout: Path) -> None:
    registry.fault("PUT", "/manifests/", "status", status=400)
    with pytest.raises(CheckFailed, match="manifests/1: 400 FAULT: as told"):
        push(layout, parse_reference(f"{registry.host}/a:1"), progress=Silent(), patience=QUICK)
    assert registry.manifests == {}


def test_what_is_no_layout_or_lacks_a_layer_asks_nobody(registry: FakeRegistry, layout: Path, tmp_path: Path) -> None:
    reference = parse_reference(f"{registry.host}/a:1")
    with pytest.raises(InputError, match="not an OCI layout"):
        push(tmp_path / "nothing", reference, progress=Silent())
    image = read_layout(layout)
    image.blob(image.layers[0]).unlink()
    with pytest.raises(DamagedImage, match="is damaged: it is missing"):
        push(layout, reference, progress=Silent())
    assert registry.log == []


def test_nobody_answers(layout: Path) -> None:
    with pytest.raises(MissingError, match="Connection refused"):
        push(layout, parse_reference("127.0.0.1:1/a:1"), progress=Silent())


def test_each_blob_travels_once_the_largest_first(layout: Path) -> None:
    items = outgoing(read_layout(layout))
    assert items[0].name == "1"
    assert [item.size for item in items] == sorted((item.size for item in items), reverse=True)
    assert len({item.digest for item in items}) == 3
