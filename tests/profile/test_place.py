"""orbit.profile.place: where a profile's lock lies, and never outside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.paths import checkout_root
from orbit.errors import InputError, MissingError
from orbit.profile.model import load_profile
from orbit.profile.place import (
    checkout_of,
    lock_command,
    lock_folder,
    lock_name,
    lock_path,
    profile_lock,
    project_name,
)  # fmt: skip
from tests.profile.locks import lock_text, profile_of


def test_the_root_and_a_folder_of_its_own() -> None:
    root = checkout_root()
    assert lock_path(load_profile("cu130"), root) == lock_path(load_profile("probe"), root) == root / "uv.lock"
    own = load_profile("cu128")
    assert lock_folder(own, root) == root / "env" / "profiles" / "cu128"
    assert profile_lock(own, root).path == root / "env" / "profiles" / "cu128" / "uv.lock"
    assert (lock_name(own), project_name(own)) == (
        "env/profiles/cu128/uv.lock", "env/profiles/cu128/pyproject.toml",
    )  # fmt: skip
    assert (lock_name(load_profile("probe")), project_name(load_profile("probe"))) == ("uv.lock", "pyproject.toml")
    assert lock_command(load_profile("cu130")) == "UV_NO_CONFIG=1 uv lock"
    assert lock_command(own) == "UV_NO_CONFIG=1 uv lock --project env/profiles/cu128"


@pytest.mark.parametrize("lock", ["../elsewhere", "/elsewhere", "env/../../elsewhere"])
def test_a_folder_outside_the_checkout_is_refused(tmp_path: Path, lock: str) -> None:
    with pytest.raises(InputError, match="leads out of the checkout") as caught:
        profile_lock(profile_of(lock=lock), tmp_path / "checkout")
    assert 'lock = "env/profiles/test"' in caught.value.fix


def test_a_link_out_of_the_checkout_is_refused_and_one_inside_is_not(tmp_path: Path) -> None:
    root, outside = tmp_path / "checkout", tmp_path / "outside"
    for folder in (root / "real", outside):
        folder.mkdir(parents=True)
        (folder / "uv.lock").write_text(lock_text())
    (root / "out").symlink_to(outside)
    (root / "in").symlink_to("real")
    with pytest.raises(InputError, match=f"to {outside}"):
        lock_path(profile_of(lock="out"), root)
    assert profile_lock(profile_of(lock="in"), root).root.name == "orbit"


def test_a_missing_lock_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"none/uv\.lock: no such file"):
        profile_lock(profile_of(lock="none"), tmp_path)


def test_the_checkout_of_a_lock(tmp_path: Path) -> None:
    root = checkout_root()
    for name in ("cu130", "probe", "cu128"):
        profile = load_profile(name)
        assert checkout_of(lock_path(profile, root), profile) == root
    assert checkout_of(root / "uv.lock", load_profile("cu128")) is None
    assert checkout_of(lock_path(load_profile("cu128"), root), load_profile("cu130")) is None
    assert checkout_of(tmp_path / "uv.lock", load_profile("cu130")) is None
    assert checkout_of(Path("/uv.lock"), load_profile("cu128")) is None
