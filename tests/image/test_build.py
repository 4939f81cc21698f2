"""The image stage: equal digests, reuse, what an edit moves, and runs that are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from orbit.core.store import Store
from orbit.errors import RefusedError
from orbit.image import build, layers
from orbit.image.blob import read_tar
from orbit.image.build import ImageResult
from orbit.image.oci import read_layout, verify_layers
from tests.image.conftest import BuildSmall
from tests.image.world import environment_files, make_checkout, make_environment

ROOT = Path(__file__).parents[2]


def extract(result: ImageResult, name: str, dest: Path) -> Path:
    layer = next(layer for layer in result.layers if layer.name == name)
    plain = dest.with_suffix(".tar")
    plain.write_bytes(b"".join(read_tar(result.layout / "blobs" / "sha256" / layer.digest[7:], "zstd")))
    with tarfile.open(plain) as archive:
        archive.extractall(dest, filter="fully_trusted")
    return dest


def test_order_times_modes_and_place_do_not_change_the_digest(
    tmp_path: Path, build_small: BuildSmall, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = set()
    for seed, umask in ((1, 0o022), (2, 0o077), (3, 0o002)):
        store = Store(tmp_path / f"store{seed}")
        monkeypatch.chdir(tmp_path)
        result = build_small(
            store,
            environment=make_environment(store, seed=seed, umask=umask),
            root=make_checkout(tmp_path / f"somewhere{seed}" / "checkout"),
            out=tmp_path / f"out{seed}",
        )
        digests.add((result.digest, result.config))
    assert len(digests) == 1


def test_the_second_run_reuses_everything_and_lists_nothing(
    store: Store, build_small: BuildSmall, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build_small(store)
    assert not any(layer.reused for layer in first.layers)

    def never(*_args: object) -> None:
        raise AssertionError("the environment was listed")

    monkeypatch.setattr(build, "plan_layers", never)
    second = build_small(store)
    assert all(layer.reused for layer in second.layers)
    assert second.digest == first.digest


def test_an_edit_of_orbit_changes_its_layer_alone(store: Store, build_small: BuildSmall, tmp_path: Path) -> None:
    first = build_small(store)
    (tmp_path / "checkout" / "orbit" / "cli" / "__init__.py").write_text("def main() -> int:\n    return 1\n")
    second = build_small(store, root=tmp_path / "checkout")
    changed = [a.name for a, b in zip(first.layers, second.layers, strict=True) if a.digest != b.digest]
    assert changed == ["orbit"]
    assert [layer.name for layer in second.layers if not layer.reused] == ["orbit"]
    assert second.digest != first.digest


def test_layers_come_in_order_and_empty_ones_not_at_all(store: Store, build_small: BuildSmall) -> None:
    assert [layer.name for layer in build_small(store).layers] == [
        "base",
        "interpreter",
        "cuda",
        "torch",
        "stack",
        "orbit",
    ]
    without = {path: data for path, data in environment_files().items() if "nvidia" not in path and "torch" not in path}
    result = build_small(store, environment=make_environment(store, without))
    # the link farm of the small environment still fills the cuda layer
    assert [layer.name for layer in result.layers] == ["base", "interpreter", "cuda", "stack", "orbit"]


def test_unpacked_the_layers_are_the_environment_and_orbit(
    store: Store, build_small: BuildSmall, tmp_path: Path
) -> None:
    result = build_small(store)
    root = tmp_path / "root"
    for layer in result.layers:
        extract(result, layer.name, root)
    prefix = root / "opt" / "orbit"
    for name, data in environment_files().items():
        assert (prefix / name).read_bytes() == data
    assert os.readlink(prefix / "cuda" / "lib64") == "../lib/python3.12/site-packages/nvidia/cu13/lib"
    assert (prefix / "cuda" / "lib64" / "libcublas.so.13").is_file()
    for path in [root, *root.rglob("*")]:
        state = path.lstat()
        assert path.is_symlink() or state.st_mode & 0o777 in (0o644, 0o755)
    assert (prefix / "bin" / "orbit-entrypoint").stat().st_mode & 0o111


def test_a_tree_that_changes_meanwhile_is_refused_and_nothing_is_kept(
    store: Store, build_small: BuildSmall, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = make_environment(store)
    listed = layers.plan_layers

    def then_change(*args: object) -> object:
        plan = listed(*args)  # type: ignore[arg-type]
        with (environment.path / "prefix" / "lib/python3.12/site-packages/torch/lib/libtorch.so").open("ab") as file:
            file.write(b"more")
        return plan

    monkeypatch.setattr(build, "plan_layers", then_change)
    with pytest.raises(RefusedError, match="changed while it was read"):
        build_small(store, environment=environment)
    kept = [path for path in store.root.glob("entries/layer/*/.orbit.json") if '"layer": "torch"' in path.read_text()]
    assert kept == []
    assert list((store.root / "tmp").iterdir()) == []


KILLED = """
import sys
from pathlib import Path
from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.image import build
from tests.image.world import PROFILE, Kernels, make_checkout, make_environment, make_small_base
work = Path(sys.argv[1])
build.make_base = lambda *_args, **_rest: make_small_base(work / "base")
store = Store(work / "store")
with store.writer("test"):
    store.sweep()
    result = build.build_image(PROFILE, make_checkout(work / "checkout"), make_environment(store), Kernels(), store,
                               out=work / "image", progress=Silent())
print(result.digest)
"""


@pytest.mark.integration
def test_killed_at_random_moments_the_image_is_whole_or_absent_and_ends_the_same(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", KILLED]
    began = time.monotonic()
    whole = subprocess.run([*argv, str(tmp_path / "calm")], cwd=ROOT, capture_output=True, check=True, text=True)
    lasted = time.monotonic() - began
    moments = random.Random(7)
    killed = 0
    for _ in range(20):
        child = subprocess.Popen([*argv, str(tmp_path / "killed")], cwd=ROOT, stdout=subprocess.DEVNULL)
        time.sleep(lasted * moments.uniform(0.1, 1.0))
        child.send_signal(signal.SIGKILL)
        killed += child.wait() == -signal.SIGKILL
        if (tmp_path / "killed" / "image").exists():
            verify_layers(read_layout(tmp_path / "killed" / "image"))
    assert killed >= 10
    last = subprocess.run([*argv, str(tmp_path / "killed")], cwd=ROOT, capture_output=True, check=True, text=True)
    assert last.stdout == whole.stdout
    assert list((tmp_path / "killed" / "store" / "tmp").iterdir()) == []
    assert [path.name for path in (tmp_path / "killed").iterdir() if path.name.startswith(".")] == []
