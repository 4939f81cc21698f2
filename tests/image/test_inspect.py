"""What `orbit image inspect` tells of a layout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.errors import CheckFailed
from orbit.image.inspect import inspect_layout, render
from orbit.image.oci import write_layout
from tests.image.conftest import BuildSmall
from tests.image.test_oci import damage


def test_inspect_tells_layers_sizes_and_labels(store: Store, build_small: BuildSmall) -> None:
    result = build_small(store)
    facts = inspect_layout(result.layout, verify=True, progress=Silent())
    assert facts.pull_bytes == sum(layer.size for layer in result.layers)
    assert facts.disk_bytes == sum(layer.tar_bytes for layer in result.layers)
    assert facts.labels["io.orbit.kernels"] == "k" * 64
    assert facts.labels["io.orbit.targets"] == "h100=sm_90a"
    assert facts.verified
    text = render(facts)
    assert all(layer.name in text and layer.digest[7:19] in text for layer in result.layers)
    assert "every layer was read" in text
    assert "every layer was read" not in render(inspect_layout(result.layout, verify=False, progress=Silent()))


def test_verify_finds_what_a_plain_look_does_not(store: Store, build_small: BuildSmall) -> None:
    result = build_small(store)
    damage(result.layout / "blobs" / "sha256" / result.layers[1].digest[7:])
    assert inspect_layout(result.layout, verify=False, progress=Silent()).digest == result.digest
    with pytest.raises(CheckFailed, match="layer interpreter is damaged"):
        inspect_layout(result.layout, verify=True, progress=Silent())


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
    facts = inspect_layout(foreign, verify=False, progress=Silent())
    assert facts.disk_bytes is None
    assert facts.layers[0].files is None
    assert " - " in render(facts)
