"""What processes have loaded: from made-up facts."""

from __future__ import annotations

import pytest

from orbit.doctor.detect import DETECTORS
from orbit.doctor.facts import Facts, Loaded


def found(detector: str, *libraries: str, deleted: tuple[str, ...] = ()) -> list[str]:
    loaded = Loaded(pid=7, name="ray::Trainer", libraries=libraries, deleted=deleted)
    return [seen.message for seen in DETECTORS[detector](Facts(loaded=(loaded,)))]


@pytest.mark.parametrize(
    ("detector", "libraries", "word"),
    [
        ("nccl_loaded_twice", ("/env/nccl/libnccl.so.2", "/usr/lib/libnccl.so.2"), "/env/nccl/libnccl.so.2 and /usr"),
        ("cudnn_loaded_from_two", ("/env/libcudnn.so.9", "/usr/lib/libcudnn_graph.so.9"), "/env and /usr/lib"),
        ("cudarts_loaded", ("/e/libcudart.so.12", "/e/libcudart.so.13"), "12 and 13"),
        ("stub_without_runtime", ("/e/libcudart_stub.so",), "no CUDA runtime"),
    ],
)
def test_it_is_seen(detector: str, libraries: tuple[str, ...], word: str) -> None:
    (message,) = found(detector, *libraries)
    assert "process 7 (ray::Trainer)" in message
    assert word in message


@pytest.mark.parametrize(
    ("detector", "libraries"),
    [
        ("nccl_loaded_twice", ("/e/libnccl.so.2", "/e/libnccl-net.so")),
        ("cudnn_loaded_from_two", ("/e/libcudnn.so.9", "/e/libcudnn_graph.so.9", "/usr/libcudart.so.13")),
        ("cudarts_loaded", ("/e/libcudart.so.13", "/f/libcudart-a1b2c3.so.13")),
        ("stub_without_runtime", ("/e/libcudart_stub.so", "/e/libcudart.so.13")),
        ("libraries_replaced", ("/e/libcudart.so.13",)),
    ],
)
def test_its_near_miss_is_not(detector: str, libraries: tuple[str, ...]) -> None:
    assert found(detector, *libraries) == []


def test_files_that_are_gone_are_counted() -> None:
    gone = ("/e/libc10.so", "/e/libcudart.so.13")
    (message,) = found("libraries_replaced", *gone, deleted=gone)
    assert "runs /e/libc10.so and 1 more" in message
