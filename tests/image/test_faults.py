"""The image stage where things fail around it: a full disk at any point, two builds at once."""

from __future__ import annotations

import errno
import functools
import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orbit.core.files import from_os_error
from orbit.core.store import Store
from orbit.errors import ExitCode, OrbitError
from orbit.image.build import ImageResult
from orbit.image.oci import read_layout, verify_layers
from tests.image.conftest import BuildSmall
from tests.image.world import environment_files, make_checkout, make_environment, recorded

ROOT = Path(__file__).parents[2]
POINTS = 25
"""Writing calls that fail, of those of one build, chosen at random."""
WRITING = ("write", "fsync", "mkdir", "rename", "replace", "link", "symlink")


class Disk:
    """Counts the calls that need room and lets one of them, and all after it, find the disk full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self.full_at = -1
        self._lock = threading.Lock()
        for name in WRITING:
            monkeypatch.setattr(os, name, self._wrap(getattr(os, name)))

    def _wrap(self, real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **rest: object) -> object:
            with self._lock:
                self.calls += 1
                full = 0 <= self.full_at < self.calls
            # moving what is to be deleted out of sight needs no room
            doomed = any("discard." in str(arg) or "swept." in str(arg) for arg in args)
            if full and not doomed:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*args, **rest)

        return call

    def count(self, full_at: int = -1) -> None:
        """Start anew."""
        self.calls, self.full_at = 0, full_at


def refused(error: OSError | OrbitError) -> bool:
    """Whether the command line ends with "no room" and 4 for it."""
    known = error if isinstance(error, OrbitError) else from_os_error(error, "running this command")
    return known.code == ExitCode.REFUSED and "free some room" in str(known)


def outcome(build: Callable[[], ImageResult]) -> str:
    """The digest that came out, or empty when the disk was full; any other failure is raised."""
    try:
        return build().digest
    except (OSError, OrbitError) as error:
        if not refused(error):
            raise
    return ""


def forget_layers(store: Store) -> None:
    shutil.rmtree(store.root / "entries" / "layer", ignore_errors=True)


def test_a_disk_that_fills_up_at_any_point_leaves_the_old_image_and_a_usable_store(
    store: Store, build_small: BuildSmall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_checkout(tmp_path / "checkout")
    environment = make_environment(store, recorded(environment_files()))
    build_small(store, environment=environment, root=root)
    (root / "LICENSE").write_text("another\n")
    disk = Disk(monkeypatch)
    forget_layers(store)
    disk.count()
    new = build_small(store, environment=environment, root=root, out=tmp_path / "elsewhere").digest
    calls = disk.calls
    old = read_layout(tmp_path / "image").digest
    assert old != new
    failed = 0
    for point in sorted(random.Random(3).sample(range(calls), POINTS)):
        forget_layers(store)
        disk.count(full_at=point)
        made = outcome(functools.partial(build_small, store, environment=environment, root=root))
        disk.count()
        assert made in ("", new), point
        if not made:
            failed += 1
            assert read_layout(tmp_path / "image").digest == old, point
        verify_layers(read_layout(tmp_path / "image"))
        assert list((store.root / "tmp").iterdir()) == [], point
        assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == [], point
        assert build_small(store, environment=environment, root=root, out=tmp_path / "again").digest == new
        if read_layout(tmp_path / "image").digest == new:
            break  # what fails after the new layout is in its place is of no consequence
    assert failed >= POINTS // 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """``small_disk(KILOBYTES)``: a file system of that size, mounted at one place; skips where that is not allowed."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = False

    def size(kilobytes: int) -> Path:
        nonlocal mounted
        options = f"{'remount,' if mounted else ''}size={kilobytes}k"
        argv = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
        mounted = True
        return place

    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a small file system needs root and mount")
    try:
        yield size
    finally:
        if mounted:
            subprocess.run(["umount", str(place)], check=True)


def test_a_small_disk_that_is_enlarged_in_the_end(
    small_disk: Callable[[int], Path], build_small: BuildSmall, tmp_path: Path
) -> None:
    root = make_checkout(tmp_path / "checkout")
    place = small_disk(4096)
    store = Store(place / "store")
    environment = make_environment(store, recorded(environment_files()))
    used = shutil.disk_usage(place).used >> 10
    failed = 0
    for more in (4, 8, 16, 64, 128, 256, 300, 350, 400, 500):
        small_disk(used + more)
        made = outcome(functools.partial(build_small, store, environment=environment, root=root, out=place / "image"))
        if made:
            verify_layers(read_layout(place / "image"))
        else:
            failed += 1
            assert not (place / "image").exists()
            assert list((store.root / "tmp").iterdir()) == []
    assert failed >= 4
    small_disk(16384)
    last = build_small(store, environment=environment, root=root, out=place / "image")
    calm = Store(tmp_path / "calm")
    right = build_small(calm, environment=make_environment(calm, recorded(environment_files())), root=root)
    assert last.digest == right.digest
    verify_layers(read_layout(place / "image"))


HOLDER = """
import sys
from pathlib import Path
from orbit.core.store import Store
with Store(Path(sys.argv[1])).writer("orbit image build"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_build_in_one_store_ends_with_4_and_names_the_first(tmp_path: Path) -> None:
    store, out = tmp_path / "store", tmp_path / "image"
    argv = [sys.executable, "-m", "orbit", "image", "build", "--profile", "probe", "--out", str(out)]
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(store)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        assert first.stdin is not None
        assert first.stdout.readline() == "held\n"
        env = os.environ | {"ORBIT_CACHE": str(store)}
        second = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        first.stdin.close()
    assert second.returncode == ExitCode.REFUSED
    assert f"orbit image build is running (process {first.pid}" in second.stderr
    assert not out.exists()


BUILDER = """
import sys
from pathlib import Path
from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.image import build
from tests.image.world import PROFILE, Kernels, make_checkout, make_environment, make_small_base
work, out = Path(sys.argv[1]), Path(sys.argv[2])
build.make_base = lambda *_args, **_rest: make_small_base(work / "base")
store = Store(work / "store")
environment, root = make_environment(store), make_checkout(work / "checkout")
print("ready", flush=True)
sys.stdin.readline()
for _ in range(5):
    result = build.build_image(PROFILE, root, environment, Kernels(), store, out=out, progress=Silent())
print(result.digest)
"""


@pytest.mark.parametrize("stores", ["one", "two"])
def test_builds_at_the_same_time_that_no_lock_keeps_apart_make_one_whole_image(tmp_path: Path, stores: str) -> None:
    """Two stores with one ``--out``, or callers that do without the store's lock: the last to finish stays, whole."""
    places = [tmp_path / "a", tmp_path / ("a" if stores == "one" else "b")]
    out = tmp_path / "image"
    builders = [
        subprocess.Popen(
            [sys.executable, "-c", BUILDER, str(place), str(out)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for place in places
    ]  # fmt: skip
    for builder in builders:
        assert builder.stdout is not None
        assert builder.stdout.readline() == "ready\n", builder.communicate()[1]
    for builder in builders:
        assert builder.stdin is not None
        builder.stdin.write("go\n")
        builder.stdin.flush()
    said = [builder.communicate(timeout=120) for builder in builders]
    assert [builder.returncode for builder in builders] == [0, 0], said
    assert len({answer for answer, _ in said}) == 1
    assert read_layout(out).digest == said[0][0].strip()
    verify_layers(read_layout(out))
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
