"""What a node must offer: each fault from values of ours, and each check on this machine."""

from __future__ import annotations

import resource
import socket
import urllib.error
from pathlib import Path

import pytest

from orbit.smoke.kinds import node
from orbit.smoke.model import CheckError, Context, Target

CONTEXT = Context(targets=(Target(name="h100", capability="9.0", sass="sm_90", feature="sm_90a"),))


def test_shared_memory() -> None:
    assert node.check_shared_memory({"least_mb": 0}, CONTEXT)["shm_mb"] >= 0
    with pytest.raises(CheckError, match=r"1000000000 are needed .*--shm-size"):
        node.check_shared_memory({"least_mb": 10**9}, CONTEXT)


def test_limits() -> None:
    none = resource.RLIM_INFINITY
    assert list(node.limit_faults(none, 65536, 65536, rdma=False)) == []
    assert list(node.limit_faults(65536, none, 65536, rdma=True)) == []
    (few,) = node.limit_faults(1024, none, 65536, rdma=True)
    assert "1024 open files" in few
    (little,) = node.limit_faults(none, 65536, 65536, rdma=True)
    assert "65536 bytes of locked memory" in little
    assert "open files" in node.check_limits({"least_files": 1}, CONTEXT)["summary"]
    with pytest.raises(CheckError, match="Ray needs 99999999999"):
        node.check_limits({"least_files": 99999999999}, CONTEXT)


def test_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORBIT_STATE", str(tmp_path))
    assert node.check_state({"least_free_mb": 1}, CONTEXT)["free_mb"] > 0
    with pytest.raises(CheckError, match="MB free, 1000000000 are needed"):
        node.check_state({"least_free_mb": 10**9}, CONTEXT)

    def no_locks(*_arguments: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(node.fcntl, "flock", no_locks)
    with pytest.raises(CheckError, match="no file locks"):
        node.check_state({"least_free_mb": 1}, CONTEXT)


def test_loopback_goes_around_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as dead:
        dead.bind(("127.0.0.1", 0))
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{dead.getsockname()[1]}")
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        with pytest.raises(CheckError, match=r"no_proxy must name 127\.0\.0\.1"):
            node.check_loopback({}, CONTEXT)
        monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
        assert node.check_loopback({}, CONTEXT)


def test_a_machine_that_does_not_know_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_arguments: object, **_more: object) -> None:
        raise urllib.error.URLError(socket.gaierror(-3, "Temporary failure in name resolution"))

    monkeypatch.setattr(node.urllib.request, "urlopen", unknown)
    with pytest.raises(CheckError, match="/etc/hosts is missing"):
        node.check_loopback({}, CONTEXT)


def test_memory_handles_that_are_denied_need_another_transport(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORBIT_PEFT_ADAPTER_TRANSPORT", raising=False)
    monkeypatch.setattr(node, "_take_from_sibling", lambda: 1)
    with pytest.raises(CheckError, match=r"Operation not permitted.*cpu_gather"):
        node.check_memory_handles({}, CONTEXT)
    monkeypatch.setenv("ORBIT_PEFT_ADAPTER_TRANSPORT", "cpu_gather")
    assert node.check_memory_handles({}, CONTEXT)["pidfd_getfd"] is False


def test_a_descriptor_is_really_asked_for() -> None:
    assert node._take_from_sibling() in (0, 1, 38)  # given, EPERM, ENOSYS


@pytest.mark.parametrize(
    ("wanted", "good"),
    [
        ("", True),
        ("eth", True),
        ("=eth0", True),
        ("=eth", False),
        ("ib0", False),
        ("^docker", True),
        ("eth0,ib0", False),
    ],
)
def test_interfaces(wanted: str, good: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (list(node.interface_faults(["lo", "eth0"], wanted)) == []) is good
    assert "lo" in node.check_interfaces({}, CONTEXT)["interfaces"]


def test_rdma_of_the_host_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "INFINIBAND", tmp_path)
    monkeypatch.setattr(node, "VERBS", tmp_path / "absent")
    (tmp_path / "mlx5_0").mkdir()
    assert "of the host, not in this container" in node.check_interfaces({}, CONTEXT)["summary"]
    with pytest.raises(CheckError, match="no RDMA in this container"):
        node.check_interfaces({"rdma": True}, CONTEXT)


def test_visible_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "device_count", lambda: 1)
    monkeypatch.setattr(node, "describe", lambda _index: {"device": "NVIDIA H100", "capability": "9.0"})
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-ab12cd34,GPU-ef56")
    with pytest.raises(CheckError, match="names 2 devices, the driver sees 1"):
        node.check_visible_devices({}, CONTEXT)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-ab12cd34")
    assert node.check_visible_devices({}, CONTEXT)["devices"] == ["NVIDIA H100 (h100)"]
