"""orbit.kernels.finish: what a finished wheel lacks or holds too much of is a finding."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orbit.core.paths import checkout_root
from orbit.core.records import load_json
from orbit.core.store import Store
from orbit.errors import CheckFailed
from orbit.kernels import finish as module
from orbit.kernels import plan as plans
from orbit.kernels.buildenv import SITE
from orbit.kernels.finish import finish, host_paths
from orbit.kernels.manifest import BuildManifest
from orbit.kernels.plan import MANIFEST, Item, make_plan
from orbit.kernels.recipe import Feature, Recipe
from orbit.kernels.workspace import Workspace
from orbit.profile.model import load_profile


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setattr(plans, "host_toolchain", lambda: "g++ 12.2.0")
    monkeypatch.setattr(module, "compiler_release", lambda _cuda: "a compiler")
    found = Workspace(tmp_path / "build", tmp_path / "log")
    (found.env / SITE).mkdir(parents=True)
    return found


def item(tmp_path: Path, **fields: object) -> Item:
    plan = make_plan(load_profile("probe"), checkout_root(), Store(tmp_path / "store"), tier="core")
    found = plan.items[0]
    plain: dict[str, object] = {
        "artifacts": ("thing/__init__.py",),
        "device_units": 0,
        "features": (),
        "shared_object": None,
    }
    recipe: Recipe = msgspec.structs.replace(found.recipe, **{**plain, **fields})
    return msgspec.structs.replace(found, recipe=recipe)


def tree(space: Workspace, version: str = "0.1.0", text: str = "x = 1\n") -> Path:
    folder = space.root / "wheel"
    info = folder / f"thing-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: thing\nVersion: {version}\n")
    (folder / "thing").mkdir()
    (folder / "thing" / "__init__.py").write_text(text)
    return folder


def test_a_wheel_as_asked_for_gets_its_manifest(space: Workspace, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    manifest = finish(item(tmp_path), space, tree(space), out, profile=load_profile("probe"))
    assert (out / manifest.wheel).is_file()
    assert load_json(out / MANIFEST, BuildManifest) == manifest
    assert str(tmp_path) not in (out / MANIFEST).read_text()


@pytest.mark.parametrize(
    ("fields", "version", "text", "rule"),
    [
        ({"artifacts": ("thing/_c.*.so",)}, "0.1.0", "", "kernel-artifact"),
        ({}, "0.2.0", "", "kernel-version"),
        ({}, "0.1.0", "path = '{root}/src'", "kernel-path"),
        ({"device_units": 1}, "0.1.0", "", "kernel-units"),
        (
            {"features": (Feature(name="fast", reason="slow without", symbols=("*fast*",)),)},
            "0.1.0",
            "",
            "kernel-feature",
        ),
    ],
)
def test_what_is_wrong_fails_by_its_rule(
    space: Workspace, tmp_path: Path, fields: dict[str, object], version: str, text: str, rule: str
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    folder = tree(space, version, text.format(root=space.root))
    with pytest.raises(CheckFailed, match=rule) as caught:
        finish(item(tmp_path, **fields), space, folder, out, profile=load_profile("probe"))
    assert caught.value.fix


def test_paths_of_this_machine_are_those_of_the_build_its_environment_and_the_interpreter(
    space: Workspace, tmp_path: Path
) -> None:
    (tmp_path / "store" / "env").mkdir(parents=True)
    space.env.rename(tmp_path / "moved")
    space.env.symlink_to(tmp_path / "store" / "env")
    assert {str(space.root), str(tmp_path / "store" / "env")} <= set(host_paths(space))
    assert not any(path.startswith("/usr") for path in host_paths(space))
