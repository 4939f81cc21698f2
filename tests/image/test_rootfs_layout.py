"""Reading a layout for running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.errors import InputError
from orbit.image.rootfs_layout import container_env, read_image
from orbit.image.runtime import SYSTEM_PATH
from tests.writers.tiny_image import file, write_image


def test_digests_cannot_lead_elsewhere(tmp_path: Path) -> None:
    layout = write_image(tmp_path / "layout", [[file("f", b"x")]], diff_ids=["sha256:../../../../etc/passwd"])
    with pytest.raises(InputError, match="is not sha256"):
        read_image(layout)


def test_no_layers_is_no_image(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no layers"):
        read_image(write_image(tmp_path / "layout", []))


def test_environment_is_the_images_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "1")
    image = read_image(write_image(tmp_path / "layout", [[file("f")]], config={"Env": ["A=b=c", "HOME=/h"]}))
    assert container_env(image, "/nowhere") == {"A": "b=c", "HOME": "/h", "PATH": SYSTEM_PATH}
