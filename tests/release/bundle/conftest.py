"""One world for all tests that only read it, and copies of its bundle for those that do not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.release.bundle.world import World


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A release, with its bundle and its archive written. Not to be changed."""
    made = World(tmp_path_factory.mktemp("release")).make()
    made.bundle()
    return made


@pytest.fixture
def folder(world: World, tmp_path: Path) -> Path:
    """A copy of the bundle, to be changed."""
    return shutil.copytree(world.place / "bundle", tmp_path / "bundle")
