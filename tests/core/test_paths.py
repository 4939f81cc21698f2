"""Where Orbit's data lies: in a checkout, and in an installed copy."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from orbit.core import paths
from orbit.core.paths import checkout_root, data_file, data_root
from orbit.errors import InputError

ROOT = Path(__file__).resolve().parents[2]


def test_in_a_checkout() -> None:
    assert data_root() == checkout_root() == ROOT
    assert data_file("env", "profiles", "cu130.toml").is_file()
    for folder in paths.DATA_FOLDERS:
        assert (data_root() / folder).is_dir()
    # the wheel, and whoever copies a checkout to build an image of it, take the same folders
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert set(wheel["force-include"]) == set(paths.DATA_FOLDERS)


def test_in_an_installed_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site-packages" / "orbit"
    package.mkdir(parents=True)
    monkeypatch.setattr(paths, "PACKAGE", package)
    assert data_root() == package / "_data"
    with pytest.raises(InputError, match="needs Orbit's checkout") as caught:
        checkout_root()
    assert "orbitw" in caught.value.fix


def test_a_project_around_an_installed_copy_is_not_taken_for_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(paths, "PACKAGE", tmp_path / "orbit")
    assert data_root() == tmp_path / "orbit" / "_data"
