"""A store at a glance."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from orbit.core.holding import survey
from orbit.core.stock import take_stock
from orbit.core.store import Store


def work(folder: Path) -> dict[str, Any]:
    (folder / "blob").write_bytes(b"1234" * 2000)
    return {}


def test_kinds_and_layouts(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    layers = [store.obtain("layer", {"n": number}, work) for number in (1, 2)]
    store.obtain("smoke", {"n": 1}, work)
    for name, linked in (("image", layers[0]), ("run/image", layers[1])):
        blobs = tmp_path / "dist" / name / "blobs" / "sha256"
        blobs.mkdir(parents=True)
        (tmp_path / "dist" / name / "oci-layout").touch()
        os.link(linked.path / "blob", blobs / "x")
    (tmp_path / "dist" / "newest").symlink_to("run")
    (tmp_path / "dist" / "foreign").mkdir()
    (tmp_path / "dist" / "foreign" / "oci-layout").touch()
    stock = take_stock(store)
    found = survey(stock, store.root, tmp_path / "dist")
    assert [(kind.kind, kind.items) for kind in found.kinds] == [("layer", 2), ("smoke", 1)]
    assert found.kinds[0].outside == 2 * (layers[0].path / "blob").stat().st_blocks * 512
    assert found.kinds[1].outside == 0
    assert found.size == sum(kind.size for kind in found.kinds) == sum(item.size for item in stock.items)
    assert [(Path(layout.path).relative_to(tmp_path / "dist"), layout.items) for layout in found.layouts] == [
        (Path("image"), (f"layer/{layers[0].record.key}",)),
        (Path("run/image"), (f"layer/{layers[1].record.key}",)),
    ]
    assert found.free > 0
    assert (found.items, survey(stock, store.root, tmp_path, items=True).items) == ((), stock.items)


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    store = Store(tmp_path / "none")
    found = survey(take_stock(store), store.root, tmp_path / "none")
    assert (found.size, found.kinds, found.layouts) == (0, (), ())
