"""Writing a layout: blobs as links, all in one step, never in the place of something else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orbit.core.store import Store
from orbit.errors import InputError
from orbit.image import layout_writer
from orbit.image.layout_writer import write_layout
from orbit.image.oci import read_layout, verify_layers
from tests.image.conftest import BuildSmall


def test_blobs_are_links_to_the_store_or_copies_elsewhere(
    store: Store, build_small: BuildSmall, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    result = build_small(store)
    blob = result.layout / "blobs" / "sha256" / result.layers[0].digest[7:]
    assert blob.stat().st_nlink == 2

    def other_disk(*_names: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", other_disk)
    copied = build_small(store, out=tmp_path / "elsewhere")
    assert copied.digest == result.digest
    verify_layers(read_layout(copied.layout))


def test_a_failure_at_the_last_step_leaves_the_old_layout(
    store: Store, build_small: BuildSmall, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = build_small(store)
    (tmp_path / "checkout" / "orbit" / "new.py").write_text("x = 1\n")

    def full(*_names: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(layout_writer, "replace_folder", full)
    with pytest.raises(OSError, match="No space"):
        build_small(store, root=tmp_path / "checkout")
    assert read_layout(first.layout).digest == first.digest
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_folder_that_is_no_layout_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").write_text("mine")
    with pytest.raises(InputError, match="not an OCI layout"):
        write_layout(tmp_path / "out", [], b"{}", b"{}", ref="x")
    assert (tmp_path / "out" / "precious").read_text() == "mine"
