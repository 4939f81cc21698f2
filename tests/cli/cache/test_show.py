"""orbit cache show: what is in the store by kind, and which layouts have its files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from orbit.cli import main
from orbit.cli.cache.show import ago
from orbit.core.store import Store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "store"))
    monkeypatch.delenv("ORBIT_SHARED", raising=False)
    return Store(tmp_path / "store")


def work(folder: Path) -> dict[str, Any]:
    (folder / "blob").write_bytes(bytes(range(256)) * 64)
    return {}


def test_an_empty_store(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "show"]) == 0
    assert f"{store.root}: 0 B; " in capsys.readouterr().out
    assert not store.root.exists()


def test_kinds_layouts_and_items(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = store.obtain("layer", {"n": 1}, work)
    layout = tmp_path / "dist" / "run" / "image"
    (layout / "blobs" / "sha256").mkdir(parents=True)
    (layout / "oci-layout").write_text("{}")
    os.link(entry.path / "blob", layout / "blobs" / "sha256" / "x")
    assert main(["cache", "show", "--dist", str(tmp_path / "dist"), "--items"]) == 0
    said = capsys.readouterr().out
    assert f"{layout} has the files of 1 x layer" in said
    assert f"  layer/{entry.record.key[:12]} " in said
    assert main(["cache", "show", "--dist", str(tmp_path / "dist"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["layouts"] == [{"path": str(layout), "items": [f"layer/{entry.record.key}"]}]
    assert [(kind["kind"], kind["items"]) for kind in found["kinds"]] == [("layer", 1)]
    assert 256 * 64 <= found["kinds"][0]["outside"] < found["size"]
    assert found["items"] == []


def test_how_long_ago() -> None:
    assert (ago(12), ago(86400 * 12.2)) == ("12 s ago", "12 days ago")
