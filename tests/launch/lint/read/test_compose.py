# ruff: noqa: E501 - a case is one line
"""Compose files."""

from __future__ import annotations

import pytest

from orbit.launch.lint.facts import SOME, Pod
from orbit.launch.lint.read.manifest import read_manifest


def pods(text: str) -> list[Pod]:
    manifest = read_manifest(text.encode(), "compose.yaml")
    assert manifest.form == "compose"
    return [workload.pods[0] for workload in manifest.workloads]


def test_a_service() -> None:
    (pod,) = pods("""\
services:
  a:
    image: x
    entrypoint: [tini, --]
    command: python train.py --note "a b"
    environment: {A: 1, B: , C: $C}
    volumes: ["/a:/b", {type: bind, source: /c, target: /d, read_only: true}]
    ports: ["80:80", {target: 90, published: 91}]
    network_mode: host
    restart: always
    stop_grace_period: 1m30s
    privileged: true
    user: "1000"
    ulimits: {memlock: -1}
""")
    (item,) = pod.containers
    assert [word.text for word in item.words] == ["tini", "--", "python", "train.py", "--note", "a b"]
    assert [(env.name, env.value) for env in item.env] == [("A", "1"), ("B", None), ("C", None)]
    assert [(mount.path, mount.read_only) for mount in item.mounts] == [("/b", False), ("/d", True)]
    assert [(port.host, port.number) for port in item.ports] == [(80, 80), (91, 90)]
    assert pod.host_network is not None
    assert (item.uid, item.shm.kind, "memlock" in item.options) == (1000, "default", True)
    assert pod.grace is not None
    assert pod.restart is not None


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("deploy: {resources: {reservations: {devices: [{capabilities: [gpu], count: 2}]}}}", 2),
        ("deploy: {resources: {reservations: {devices: [{capabilities: [gpu], device_ids: ['0', '3']}]}}}", 2),
        ("deploy: {resources: {reservations: {devices: [{driver: nvidia, count: all, capabilities: [gpu]}]}}}", SOME),
        ("deploy: {resources: {reservations: {devices: [{capabilities: [tpu]}]}}}", 0),
        ("gpus: all", SOME),
        ("runtime: nvidia", SOME),
        ("tty: true", 0),
    ],
)
def test_gpus(text: str, gpus: int) -> None:
    (pod,) = pods(f"services:\n  a:\n    image: x\n    {text}\n")
    assert pod.containers[0].gpus == gpus


def test_odd_shapes_are_nothing() -> None:
    found = pods(
        "services:\n  a: [1, 2]\n  b: text\n  c: {image: [x], command: {a: b}, ports: {a: b}, volumes: 3}\n  d: {image: x}\n"
    )
    assert len(found) == 4
    assert found[2].containers[0].image is None
