"""Fixtures of the tests of settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit.rules.settings.rootfs import DEVICE_CODE, Rootfs


@pytest.fixture
def rootfs(tmp_path: Path) -> Rootfs:
    """An image with one library of device code and nothing wrong."""
    image = Rootfs(tmp_path / "root")
    image.env.add("ext", {"ext/_c.so": DEVICE_CODE})
    return image
