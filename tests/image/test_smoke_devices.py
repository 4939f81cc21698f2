"""GPUs passed into an image."""

from __future__ import annotations

from orbit.image.smoke_devices import INSIDE, Devices, driver_libraries


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
    assert devices.env({"LD_LIBRARY_PATH": "/a"}) == {"LD_LIBRARY_PATH": f"/a:{INSIDE}"}
    assert devices.docker() == ["--gpus", "all"]
    assert Devices().docker() == Devices().bubblewrap() == []
