"""An image as a bill of materials needs it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from orbit.audit.files.texts import MAX_BYTES
from orbit.core.console import Silent
from orbit.release.sbom.contents import Contents, read_contents
from tests.release.sbom.material import COPYRIGHT, HOME, SITE, Files, make
from tests.writers.tiny_image import rewrite


def contents(layout: Path, cache: Path | None = None) -> Contents:
    return read_contents(str(layout), cache=cache, progress=Silent())


def test_small_files_and_digests_are_read_through_links(tmp_path: Path) -> None:
    found = contents(make(tmp_path / "image"))
    assert found.read("usr/share/doc/libfoo1/copyright") == COPYRIGHT
    assert found.sha256("lib/libbar.so.2") == hashlib.sha256(b"bar").hexdigest()
    assert found.sha256("lib/nothing") == ""
    assert found.exists("lib/libbar.so.2")
    assert not found.exists("lib/nothing")
    assert found.read(f"{SITE}/orbit/_data/kernels/recipes/own-kernels.toml") is not None
    assert found.layers["usr/lib/libbar.so.2"] == 0
    assert found.layers[f"{HOME}/lib/python3.12/os.py"] == 1


def test_a_remembered_image_is_the_same(tmp_path: Path) -> None:
    layout = make(tmp_path / "image")
    first, second = (contents(layout, tmp_path / "facts") for _ in range(2))
    assert first.texts == second.texts
    assert first.digests == second.digests


def test_a_copyright_file_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    def change(files: Files) -> None:
        files["usr/share/doc/libbar2/copyright"] = bytes(MAX_BYTES + 1)

    assert contents(make(tmp_path / "image", change)).read("usr/share/doc/libbar2/copyright") is None


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("2026-11-30T01:02:03Z", "2026-11-30T01:02:03Z"),
        ("2026-11-30T01:02:03.123456789Z", "2026-11-30T01:02:03Z"),
        ("2026-11-30T01:02:03+01:00", "1970-01-01T00:00:00Z"),
        ("yesterday", "1970-01-01T00:00:00Z"),
        (None, "1970-01-01T00:00:00Z"),
    ],
)
def test_the_time_is_the_one_the_image_states(tmp_path: Path, said: str | None, expected: str) -> None:
    layout = make(tmp_path / "image")
    rewrite(layout, config=lambda document: document.update(created=said))
    assert contents(layout).created == expected
