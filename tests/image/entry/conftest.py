"""The world of an entry point."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.entry.world import World, make_world


@pytest.fixture
def world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="o", dir="/tmp") as short:  # as short as a state folder must be
        yield make_world(World(Path(short), {"ORBIT_STATE": f"{short}/s"}))
