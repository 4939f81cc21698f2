"""GPUs passed into an image."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.errors import MissingError
from orbit.image.oci import read_layout
from orbit.image.rootfs import unpack_image
from orbit.image.smoke.devices import INSIDE, Devices, driver_libraries, with_cache
from orbit.image.smoke.engine import open_engine
from tests.image.tiny import tiny, working


def test_driver_libraries_of_the_host() -> None:
    listing = [
        "1234 libs found in cache `/etc/ld.so.cache'",
        "\tlibcuda.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libcuda.so.1",
        "\tlibcuda.so.1 (libc6) => /usr/lib/i386-linux-gnu/libcuda.so.1",
        "\tlibcudart.so.13 (libc6,x86-64) => /usr/local/cuda/lib64/libcudart.so.13",
        "\tlibnvidia-ml.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
        "\tlibnvidia-ml.so.1 (libc6,x86-64) => /opt/second/libnvidia-ml.so.1",
    ]
    assert driver_libraries(listing) == (
        ("libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1"),
        ("libnvidia-ml.so.1", "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"),
    )


def test_devices_are_passed_in() -> None:
    devices = Devices(nodes=("/dev/nvidia0",), libraries=(("libcuda.so.1", "/host/libcuda.so.1"),))
    assert devices.bubblewrap()[:3] == ["--dev-bind", "/dev/nvidia0", "/dev/nvidia0"]
    assert devices.bubblewrap()[-3:] == ["--ro-bind", "/host/libcuda.so.1", f"{INSIDE}/libcuda.so.1"]
    assert devices.docker() == ["--gpus", "all"]
    assert Devices().docker() == Devices().bubblewrap() == []


def test_without_a_gpu_nothing_is_made(tmp_path: Path) -> None:
    assert with_cache(Devices(), Path("/usr/bin/bwrap"), tmp_path, tmp_path / "absent") == Devices()


def test_an_image_that_cannot_be_shown_a_driver(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="no /sbin/ldconfig"):
        with_cache(Devices(nodes=("/dev/nvidia0",)), Path("/usr/bin/bwrap"), tmp_path, tmp_path)


@pytest.mark.integration
def test_the_images_loader_finds_the_hosts_driver(tmp_path: Path, store: Store) -> None:
    """With a library of our own in the driver's place, and /dev/null in the GPU's."""
    choice = working("bubblewrap")
    if shutil.which("gcc") is None or not Path("/sbin/ldconfig").is_file():
        pytest.skip("needs gcc and ldconfig to make a stand-in for the driver")
    library = tmp_path / "libcuda.so.575.1"
    flags = ["-shared", "-nostdlib", "-Wl,-soname,libcuda.so.1", "-x", "c", "-o", str(library), "-"]
    subprocess.run(["gcc", *flags], input=b"int cuInit(int x) { return x; }", check=True)
    devices = Devices(nodes=("/dev/null",), libraries=(("libcuda.so.1", str(library)),))
    image = read_layout(tiny(tmp_path, loader=True))
    tree = unpack_image(image, store, progress=Silent())
    folder = tmp_path / "cache"
    folder.mkdir()
    shown = with_cache(devices, choice.program, tree.path, folder)
    argv = open_engine(choice, image, tree).argv(65534, ["/bin/sh", "-c", "ldconfig -p; cat < /dev/null"], shown)
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    assert f"libcuda.so.1 (libc6,x86-64) => {INSIDE}/libcuda.so.1" in done.stdout
