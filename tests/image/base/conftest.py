"""Fixtures of the base."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.base.archive import CHOSEN, TOYS, Server, Signer, direct, serving, signer, write_pool


@pytest.fixture(autouse=True)
def _own_network(monkeypatch: pytest.MonkeyPatch) -> None:
    direct(monkeypatch)


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    """One archive with all packages, without indexes."""
    write_pool(tmp_path / "mirror", *TOYS)
    return tmp_path / "mirror"


@pytest.fixture
def mirror(pool: Path) -> Iterator[Server]:
    """A server of that archive."""
    with serving(pool) as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What an export looks like: the chosen packages, directly in one folder."""
    place = tmp_path / "folder"
    place.mkdir()
    for toy in CHOSEN:
        (place / toy.deb).write_bytes(toy.data())
    return place


@pytest.fixture(scope="session")
def key() -> Iterator[Signer]:
    """A key that signs, in a folder with a short name."""
    with tempfile.TemporaryDirectory(prefix="orbit-gpg-") as home, signer(Path(home) / "h") as made:
        yield made
