"""docker lines of scripts."""

from __future__ import annotations

import pytest

from orbit.launch.lint.facts import SOME, Container, Word, Workload
from orbit.launch.lint.read.docker import gpu_count, mount_of, ports_of, user_of
from orbit.launch.lint.read.manifest import read_manifest


def workloads(text: str) -> tuple[Workload, ...]:
    return read_manifest(f"#!/bin/sh\n{text}\n".encode(), "a.sh").workloads


def container(text: str) -> Container:
    return workloads(text)[0].pods[0].containers[0]


@pytest.mark.parametrize(
    "line",
    [
        "docker run --rm -it -v /a:/b -p 80:80 --gpus all img cmd -x",
        "sudo docker --context far container run -dit --volume=/a:/b --publish 80:80 --gpus=all img cmd -x",
        "exec podman run -v/a:/b -p80:80 --device nvidia.com/gpu=all img cmd -x",
        'IMG=img\nCMD="docker"\n$CMD run -v /a:/b -p 80:80 --gpus all "$IMG" cmd -x',
        "ID=$(docker run -d -v /a:/b -p 80:80 --gpus all img cmd -x)",
    ],
)
def test_lines(line: str) -> None:
    found = container(line)
    assert found.image is not None
    assert (found.image.text, [word.text for word in found.args]) == ("img", ["cmd", "-x"])
    assert found.gpus == SOME
    assert [mount.path for mount in found.mounts] == ["/b"]
    assert [port.number for port in found.ports] == [80]


@pytest.mark.parametrize("line", ["docker ps", "docker build .", "echo docker run x", "docker compose run x", "docker"])
def test_no_lines(line: str) -> None:
    assert list(workloads(f"docker run first\n{line}")[1:]) == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("2", 2),
        ("all", SOME),
        ('"device=0,1"', 2),
        ("device=0", 1),
        ("count=3", 3),
        ("", SOME),
        ('"device=GPU-a,GPU-b"', 2),
    ],
)
def test_gpus(text: str, count: int) -> None:
    assert gpu_count(text) == count


def test_parts_of_values() -> None:
    assert mount_of(Word("type=bind,src=/a,dst=/b,readonly", 1)) == mount_of(Word("/a:/b:ro", 1))
    assert mount_of(Word("/a", 1)) is None
    named = mount_of(Word("cache:/b", 1))
    assert named is not None
    assert named.volume is not None
    assert named.volume.kind == "volume"
    assert [(port.host, port.number, port.protocol) for port in ports_of(Word("127.0.0.1:81:80/udp", 1))] == [
        (81, 80, "UDP")
    ]
    assert ports_of(Word("8000-8010:8000-8010", 1)) == []
    assert [user_of(Word(text, 1)) for text in ("1000:1000", "root", "ann", "$UID")] == [1000, 0, None, None]
    assert user_of(None) is None
