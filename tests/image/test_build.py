"""The image stage: equal digests, reuse, what an edit moves, and runs that are killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from orbit.core.store import Store
from orbit.errors import RefusedError
from orbit.image import build, content
from orbit.image.blob import read_tar
from orbit.image.build import ImageResult
from orbit.image.damage import DamagedImage
from orbit.image.layers import SITE
from orbit.image.oci import read_layout, verify_layers
from orbit.profile.model import Layer
from tests.image.conftest import BuildSmall
from tests.image.world import PROFILE, dist, environment_files, make_checkout, make_environment, make_small_base

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


def test_the_second_run_reuses_everything_and_plans_nothing(
    store: Store, build_small: BuildSmall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "SETTLE_NS", -(10**10))
    first = build_small(store)
    assert not any(layer.reused for layer in first.layers)

    def never(*_args: object, **_rest: object) -> None:
        raise AssertionError("the environment was planned")

    monkeypatch.setattr(build, "plan_layers", never)
    second = build_small(store)
    assert all(layer.reused for layer in second.layers)
    assert second.digest == first.digest


def test_a_bumped_distribution_moves_its_layer_and_the_record(store: Store, build_small: BuildSmall) -> None:
    files = environment_files()
    first = build_small(store, environment=make_environment(store, files))
    bumped = {path: data for path, data in files.items() if "other" not in path}
    bumped |= dist("other-thing", "1.1", {"other/leaf.py": b"x = 2\n"})
    second = build_small(store, environment=make_environment(store, bumped))
    assert [layer.name for layer in second.layers if not layer.reused] == ["stack", "environment"]
    assert second.digest != first.digest
    # and back again: all of it is still there
    assert build_small(store, environment=make_environment(store, files)).digest == first.digest


def test_layers_serve_every_profile_whatever_they_are_called_there(store: Store, build_small: BuildSmall) -> None:
    first = build_small(store)
    policy = replace(PROFILE.image, layers=(Layer(name="vendor", dists=("nvidia-*",)), *PROFILE.image.layers[1:]))
    second = build_small(store, profile=replace(PROFILE, name="other", image=policy))
    names = {layer.digest: layer.name for layer in first.layers}
    reused = {names[layer.digest]: layer.name for layer in second.layers if layer.reused}
    assert reused == {name: name for name in ("base", "torch", "stack", "environment", "orbit")}
    # the link farm went to the interpreter's layer, for there is no layer "cuda"
    assert [layer.name for layer in second.layers if not layer.reused] == ["interpreter", "vendor"]


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
        "environment",
        "orbit",
    ]
    without = {path: data for path, data in environment_files().items() if "nvidia" not in path and "torch" not in path}
    result = build_small(store, environment=make_environment(store, without))
    # the link farm of the small environment still fills the cuda layer
    assert [layer.name for layer in result.layers] == ["base", "interpreter", "cuda", "stack", "environment", "orbit"]


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


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def rewrite(path: Path) -> None:
    state = path.stat()
    path.write_bytes(bytes(state.st_size - 1) + b"!")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def swap(path: Path) -> None:
    """Another file of the same content in its place."""
    beside = path.with_name("beside")
    beside.write_bytes(path.read_bytes())
    os.replace(beside, path)


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


CHANGES: dict[str, Callable[[Path], None]] = {
    "grows": grow,
    "shrinks": lambda path: os.truncate(path, 100),
    "vanishes": Path.unlink,
    "rewritten": rewrite,
    "swapped": swap,
    "a link": link,
    "a folder": to_folder,
    "its folder vanishes": lambda path: shutil.rmtree(path.parent),
}


@pytest.mark.parametrize("how", CHANGES)
def test_a_tree_that_changes_meanwhile_is_refused_and_nothing_is_kept(
    store: Store, build_small: BuildSmall, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    environment = make_environment(store)
    listed = content.plan_layers

    def then_change(*args: object, **rest: object) -> object:
        plan = listed(*args, **rest)  # type: ignore[arg-type]
        CHANGES[how](environment.path / "prefix" / SITE / "torch" / "lib" / "libtorch.so")
        return plan

    monkeypatch.setattr(build, "plan_layers", then_change)
    with pytest.raises(RefusedError, match=r"changed while it was read|its content is not"):
        build_small(store, environment=environment)
    assert list((store.root / "tmp").iterdir()) == []
    assert not (store.root.parent / "image").exists()
    # what was kept is right: an untouched environment in the same store makes the right image
    monkeypatch.undo()
    monkeypatch.setattr(build, "make_base", lambda *_args, **_rest: make_small_base(store.root.parent / "base"))
    shutil.rmtree(environment.path)
    other = Store(store.root.parent / "other")
    right = build_small(other, environment=make_environment(other))
    assert build_small(store, environment=make_environment(store)).digest == right.digest


def test_a_base_that_was_damaged_in_the_store_is_refused(
    store: Store, build_small: BuildSmall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = make_small_base(tmp_path / "damaged")
    data = bytearray(base.tar.read_bytes())
    data[600] ^= 1
    base.tar.write_bytes(data)
    monkeypatch.setattr(build, "make_base", lambda *_args, **_rest: base)
    with pytest.raises(DamagedImage, match=r"layer base \(sha256:\w+\) is damaged: what was read is"):
        build_small(store)
    assert not (tmp_path / "image").exists()


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
