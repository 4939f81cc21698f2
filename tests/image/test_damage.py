"""One error for every damage: where, what, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.files import sha256_file
from orbit.errors import ExitCode, InputError
from orbit.image.damage import DamagedImage, blame, damaged_blob

HEX = "ab" * 32


def test_it_is_bad_input_and_names_layout_digest_layer_and_the_way_out() -> None:
    error = DamagedImage(Path("/a/layout"), f"sha256:{HEX}", layer="torch")
    assert isinstance(error, InputError)
    assert error.code == ExitCode.USAGE
    assert error.what == f"/a/layout: layer torch (sha256:{HEX}) is damaged: its content is not what its digest says"
    for word in ("orbit image pull", "orbit image build", "entries/layer"):
        assert word in error.fix
    assert DamagedImage("x.tar", f"sha256:{HEX}", "cut short").what == f"x.tar: sha256:{HEX} is damaged: cut short"


def test_a_blob_is_named_by_its_layout_or_its_folder() -> None:
    assert damaged_blob(Path(f"/a/layout/blobs/sha256/{HEX}")).what.startswith(f"/a/layout: sha256:{HEX} ")
    assert damaged_blob(Path(f"/store/layer/blob/{HEX}")).what.startswith(f"/store/layer/blob: sha256:{HEX} ")


def test_a_whole_blob_is_not_to_blame(tmp_path: Path) -> None:
    blob = tmp_path / "blob"
    blob.write_bytes(b"content")
    named = blob.rename(tmp_path / sha256_file(blob))
    blame(named)
    named.write_bytes(b"CONTENT")
    with pytest.raises(DamagedImage, match=r"layer x \(sha256:\w+\) is damaged: its content"):
        blame(named, layer="x")
    named.unlink()
    with pytest.raises(DamagedImage, match="is damaged: it is missing"):
        blame(named)
