"""What must agree between nodes, and what may differ."""

from __future__ import annotations

import msgspec

from orbit.launch.fingerprint.model import Fingerprint, Library

ONE = Fingerprint(
    interpreter="3.12.8 sha256:1",
    libraries=(
        Library(name="libcuda.so.1", path="/usr/lib/libcuda.so.1", sha256="d", inside=False),
        Library(name="libcudnn.so.9", path="/opt/orbit/libcudnn.so.9", sha256="c", inside=True),
    ),
    versions={"nccl": "2.28.9"},
    driver="580.1",
    devices=("NVIDIA H200 9.0",),
)


def test_driver_device_and_the_drivers_libraries_may_differ() -> None:
    other = msgspec.structs.replace(ONE, driver="570.2", devices=("NVIDIA B200 10.0",), libraries=ONE.libraries[1:])
    assert other.agreed == ONE.agreed


def test_anything_else_may_not() -> None:
    library = Library(name="libcudnn.so.9", path="/opt/orbit/libcudnn.so.9", sha256="other", inside=True)
    for changed in (
        {"image": "sha256:2"},
        {"lock": "2"},
        {"kernels": "2"},
        {"orbit": "2"},
        {"environment": "2"},
        {"interpreter": "3.12.9 sha256:1"},
        {"glibc": "2.36"},
        {"versions": {"nccl": "2.30.4"}},
        {"libraries": (library,)},
    ):
        assert msgspec.structs.replace(ONE, **changed).agreed != ONE.agreed, changed
