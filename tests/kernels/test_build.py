"""orbit.kernels.build: orbit-probe is really compiled from the lock's compiler. Needs g++ and the package index."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from orbit.core.console import Silent
from orbit.core.paths import checkout_root
from orbit.core.store import Store
from orbit.errors import CheckFailed, CommandFailed
from orbit.kernels.build import BuiltWheel, build_kernels
from orbit.kernels.recipe import load_recipe
from orbit.profile.model import Profile, load_profile

pytestmark = [
    pytest.mark.integration,
    pytest.mark.network,
    pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine"),
]


def build(store: Path, profile: Profile | None = None, root: Path | None = None) -> BuiltWheel:
    house = build_kernels(
        profile or load_profile("probe"),
        root or checkout_root(),
        Store(store),
        tier="core",
        progress=Silent(),
    )
    (wheel,) = house.wheels
    return wheel


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, BuiltWheel]]:
    store = tmp_path_factory.mktemp("store")
    yield store, build(store)
    shutil.rmtree(store)


def test_the_wheel_holds_what_was_asked_for(built: tuple[Path, BuiltWheel], tmp_path: Path) -> None:
    _, wheel = built
    (binary,) = wheel.manifest.found
    assert binary.coverage == {"sm_100a+sm_90a": 1}
    (unit,) = wheel.manifest.units
    assert unit.effective == ("arch=compute_90a,code=sm_90a", "arch=compute_100a,code=sm_100a")
    assert Path(wheel.path).name.startswith("orbit_probe-0.1.0-py3-none-manylinux_2_")
    with zipfile.ZipFile(wheel.path) as archive:
        archive.extractall(tmp_path)
    done = subprocess.run([sys.executable, "-m", "orbit_probe"], cwd=tmp_path, capture_output=True, check=False)
    said = json.loads(done.stdout)
    assert said["images"] == ["sm_100a", "sm_90a"]
    if said["status"] == "no-driver":
        assert done.returncode == 3
        assert "needs libcuda.so.1" in said["error"]
    else:
        assert (done.returncode, said["status"], said["mode"]) == (0, "ok", "sass")


def test_a_second_run_builds_nothing(built: tuple[Path, BuiltWheel]) -> None:
    store, wheel = built
    began = time.monotonic()
    again = build(store)
    assert again.reused
    assert not wheel.reused
    assert (again.path, again.sha256) == (wheel.path, wheel.sha256)
    assert time.monotonic() - began < 5


def test_another_folder_gives_the_same_bytes(built: tuple[Path, BuiltWheel], tmp_path: Path) -> None:
    _, wheel = built
    store = tmp_path / "a-store-in-a-folder-with-a-much-longer-name"
    assert build(store).sha256 == wheel.sha256
    shutil.rmtree(store)


def test_kill_9_in_the_middle_then_the_same_bytes(built: tuple[Path, BuiltWheel], tmp_path: Path) -> None:
    _, wheel = built
    program = (
        "import sys; from pathlib import Path; from tests.kernels.test_build import build; build(Path(sys.argv[1]))"
    )
    store = tmp_path / "store"
    with subprocess.Popen([sys.executable, "-c", program, str(store)], cwd=checkout_root()) as child:
        deadline = time.monotonic() + 60
        while not list(store.glob("tmp/build-*/src/nvcc-*/*.ii")):
            assert time.monotonic() < deadline, "the compiler never started"
            assert child.poll() is None
            time.sleep(0.01)
        os.kill(child.pid, signal.SIGKILL)
    assert not list(store.glob("entries/wheel/*"))
    with Store(store).writer("test"):
        Store(store).sweep()
    assert not list((store / "tmp").iterdir())
    assert build(store).sha256 == wheel.sha256
    shutil.rmtree(store)


def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    shutil.copytree(checkout_root() / "kernels" / "src", root / "kernels" / "src")
    for name in ("uv.lock", "pyproject.toml", "README.md"):
        shutil.copyfile(checkout_root() / name, root / name)
    return root


def test_a_source_that_does_not_compile_names_its_log(built: tuple[Path, BuiltWheel], tmp_path: Path) -> None:
    store, _ = built
    root = checkout(tmp_path)
    source = root / "kernels" / "src" / "orbit_probe" / "csrc" / "probe.cu"
    source.write_text(source.read_text() + "\nthis is no code;\n")
    with pytest.raises(CommandFailed, match=r"orbit-probe\.log") as caught:
        build(store, root=root)
    assert "no code" in (store / "logs" / "orbit-probe.log").read_text()
    assert "error" in caught.value.tail
    assert not list((store / "tmp").glob("build-*"))


def test_a_unit_that_is_missing_is_a_finding_and_nothing_is_kept(
    built: tuple[Path, BuiltWheel], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = built
    wheels = list(store.glob("entries/wheel/*"))
    recipe = msgspec.structs.replace(load_recipe("orbit-probe"), device_units=2)
    monkeypatch.setattr("orbit.kernels.plan.load_recipe", lambda _name: recipe)
    with pytest.raises(CheckFailed, match="kernel-units"):
        build(store)
    assert list(store.glob("entries/wheel/*")) == wheels


def test_the_profile_decides_the_architectures(built: tuple[Path, BuiltWheel]) -> None:
    store, both = built
    profile = load_profile("probe")
    one = build(store, msgspec.structs.replace(profile, targets=profile.targets[1:]))
    assert one.manifest.found[0].coverage == {"sm_100a": 1}
    assert one.sha256 != both.sha256
