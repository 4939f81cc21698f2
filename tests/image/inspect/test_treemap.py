"""The data of the treemap adds up on every level and names what people look for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from orbit.image.inspect.treemap import tree_of
from tests.image.inspect.material import as_zstd, image
from tests.image.inspect.test_look import looked


def tree(tmp_path: Path) -> dict[str, Any]:
    found = looked(as_zstd(image(tmp_path)))
    assert found.weighed is not None
    assert found.facts.contents is not None
    made: Any = tree_of(found.weighed, found.facts.contents, "image")
    assert made["root"][2] == found.facts.contents.disk_bytes
    assert made["root"][3] == found.facts.pull_bytes
    return dict(made)


def check_sums(node: list[Any]) -> int:
    """Compare each node with its children; the number of nodes."""
    if not node[5]:
        return 1
    for place in (2, 3, 4):
        assert node[place] == sum(child[place] for child in node[5]), node[0]
    return 1 + sum(check_sums(child) for child in node[5])


def test_every_level_adds_up(tmp_path: Path) -> None:
    assert check_sums(tree(tmp_path)["root"]) > 20


def test_layers_owners_kinds(tmp_path: Path) -> None:
    made = tree(tmp_path)
    assert made["measured"] is True
    layers = {node[0]: node for node in made["root"][5]}
    assert list(layers) == ["0", "1"]
    assert "libfoo 1.2-3 (Debian)" in {node[0] for node in layers["0"][5]}
    gpu = next(node for node in layers["1"][5] if node[0] == "gpu 1.0")
    styles = {node[0]: node[1] for node in gpu[5]}
    assert styles["sm_90a device code"] == "device"
    assert styles["sm_80 device code"] == "unused"
    assert styles["host code"] == "host"
