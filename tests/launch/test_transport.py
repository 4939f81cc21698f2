"""Which transports follow from what was measured, and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest

from orbit.errors import InputError
from orbit.launch.preflight.model import Measured
from orbit.launch.transport import ADAPTERS, OVERRIDE, Layout, Transports, choose, expandable, interface_setting

GIB = 1 << 30


def node(**changed: Any) -> Measured:
    """A node on which everything works."""
    plain: dict[str, Any] = {
        "cuda_ipc": True, "pidfd_getfd": True, "peer_access": True, "shm_bytes": 16 * GIB, "memlock_bytes": -1,
        "rdma": ("mlx5_0",), "interface": "eth0", "address": "10.0.0.2",
    }  # fmt: skip
    return Measured(**(plain | changed))


def picked(*nodes: Measured, env: dict[str, str] | None = None, **layout: Any) -> tuple[str, str]:
    found = choose(nodes, Layout(**layout), env or {})
    return found.adapter.value, found.weights.value


def settings(found: Transports) -> dict[str, str]:
    return {each.name: each.value for each in found.settings}


SEGMENTS = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


@pytest.mark.parametrize(
    ("nodes", "layout", "env", "adapter", "weights"),
    [
        ([node()], {}, {}, "cuda_ipc", "cuda-ipc"),
        ([node(), node()], {}, {}, "cuda_ipc", "cuda-ipc"),
        ([node(cuda_ipc=False)], {}, {}, "cpu_gather", "shared-memory"),
        ([node(cuda_ipc=None)], {}, {}, "cpu_gather", "shared-memory"),
        ([node(), node(cuda_ipc=False)], {}, {}, "cpu_gather", "shared-memory"),
        ([node(pidfd_getfd=False)], {}, {}, "cuda_ipc", "cuda-ipc"),
        ([node(pidfd_getfd=False)], {}, SEGMENTS, "cpu_gather", "shared-memory"),
        ([node(pidfd_getfd=None)], {}, SEGMENTS, "cpu_gather", "shared-memory"),
        ([node()], {}, SEGMENTS, "cuda_ipc", "cuda-ipc"),
        ([node()], {"capabilities": ("10.0",)}, {}, "cpu_gather", "cuda-ipc"),
        ([node()], {"capabilities": ("9.0", "10.3")}, {}, "cpu_gather", "cuda-ipc"),
        ([node()], {"capabilities": ("9.0",)}, {}, "cuda_ipc", "cuda-ipc"),
        ([node(cuda_ipc=False)], {"engine_nodes": 2}, {}, "ray", "ray"),
        ([node()], {"engine_nodes": 2}, {}, "cuda_ipc", "cuda-ipc"),
        ([node(cuda_ipc=False, shm_bytes=64 << 20)], {"adapter_bytes": GIB}, {}, "ray", "shared-memory"),
        ([node(cuda_ipc=False, shm_bytes=64 << 20)], {"weight_bytes": GIB}, {}, "cpu_gather", "ray"),
        ([node(cuda_ipc=False), node(cuda_ipc=False, shm_bytes=GIB)], {"adapter_bytes": GIB}, {}, "ray",
         "shared-memory"),
        ([node(cuda_ipc=False, shm_bytes=None)], {}, {}, "ray", "ray"),
        ([node(cuda_ipc=False, shm_bytes=0)], {}, {}, "ray", "ray"),
        ([node(cuda_ipc=False)], {"colocated": False}, {}, "nccl", "nccl"),
        ([node()], {"colocated": False, "double_buffer": True}, {}, "nccl", "nccl"),
        ([node()], {"colocated": False, "method": "oft"}, {}, "ray", "nccl"),
        ([node()], {"colocated": False, "method": "oft", "double_buffer": True}, {}, "nccl", "nccl"),
        ([node()], {"method": "oft"}, {}, "cuda_ipc", "cuda-ipc"),
    ],
)  # fmt: skip
def test_what_follows(
    nodes: list[Measured], layout: dict[str, Any], env: dict[str, str], adapter: str, weights: str
) -> None:
    assert picked(*nodes, env=env, **layout) == (adapter, weights)


def test_the_reason_says_what_was_found_and_where() -> None:
    found = choose([node(), node(cuda_ipc=False), node(cuda_ipc=None)], Layout(), {})
    assert "could not be opened by another (1 of 3 nodes)" in found.adapter.reason
    assert "not measured (1 of 1 node)" in choose([node(cuda_ipc=None)], Layout(), {}).adapter.reason
    lines = list(found.lines())
    assert lines[0].startswith("adapter transport: cpu_gather: ")
    assert all(len(line.split(": ")) >= 2 for line in lines)


@pytest.mark.parametrize("told", ["cpu_gather", "cuda_ipc", "ray"])
def test_a_persons_choice_wins_and_is_reported(told: str) -> None:
    found = choose([node()], Layout(), {OVERRIDE: told})
    assert (found.adapter.value, found.adapter.overridden, found.adapter.measured) == (told, True, "cuda_ipc")
    assert OVERRIDE in found.adapter.reason
    assert bool(found.warnings) == (told != "cuda_ipc")
    assert found.weights.value == "cuda-ipc"


def test_a_choice_that_will_fail_is_warned_of() -> None:
    found = choose([node(cuda_ipc=False)], Layout(), {OVERRIDE: "cuda_ipc"})
    assert found.adapter.value == "cuda_ipc"
    assert "a push will fail" in found.warnings[0]
    assert any(line.startswith("warning: ") for line in found.lines())


@pytest.mark.parametrize(
    ("told", "layout", "said"),
    [
        ("cuda-ipc", {}, "no such transport"),
        ("nccl", {}, "on the trainer's devices"),
        ("cuda_ipc", {"colocated": False}, "on devices of their own"),
        ("cpu_gather", {"colocated": False}, "on devices of their own"),
        ("ray", {"colocated": False, "double_buffer": True}, "double_buffer"),
        ("cpu_gather", {"engine_nodes": 2}, "span 2 nodes"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(told: str, layout: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        choose([node()], Layout(**layout), {OVERRIDE: told})
    assert said in caught.value.what
    assert caught.value.fix


def test_a_layout_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(InputError, match="double_buffer = true with colocated = true"):
        choose([node()], Layout(double_buffer=True), {})
    with pytest.raises(InputError, match="no node was measured"):
        choose([], Layout(), {})


def test_trainer_and_engines_get_one_setting_of_nccl() -> None:
    both = {"NCCL_CUMEM_ENABLE": "0", "NCCL_NVLS_ENABLE": "0"}
    assert settings(choose([node()], Layout(), {})) == both
    told = choose([node()], Layout(), {"NCCL_NVLS_ENABLE": "1"})
    assert settings(told)["NCCL_NVLS_ENABLE"] == "1"
    assert "set by the caller" in {each.name: each.reason for each in told.settings}["NCCL_NVLS_ENABLE"]


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ({"rdma": ()}, "no usable RDMA device on 1 of 2 nodes"),
        ({"memlock_bytes": 65536}, "of memory may be locked on 1 of 2 nodes"),
        ({"memlock_bytes": None}, "was not measured on 1 of 2 nodes"),
    ],
)
def test_one_node_without_rdma_decides_for_all(odd: dict[str, Any], said: str) -> None:
    (found,) = [e for e in choose([node(), node(**odd)], Layout(), {}).settings if e.name == "NCCL_IB_DISABLE"]
    assert (found.value, said in found.reason) == ("1", True)
    assert "NCCL_IB_DISABLE" not in settings(choose([node(), node()], Layout(), {}))
    assert "NCCL_IB_DISABLE" not in settings(choose([node(**odd)], Layout(), {})), "one node needs no network"
    assert settings(choose([node(), node(**odd)], Layout(), {"NCCL_IB_DISABLE": "0"}))["NCCL_IB_DISABLE"] == "0"


def test_without_pidfd_getfd_segments_stay_fixed() -> None:
    found = settings(choose([node(pidfd_getfd=False)], Layout(), {}))
    assert found["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:False"
    told = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"}
    kept = settings(choose([node(pidfd_getfd=False)], Layout(), told))
    assert kept["PYTORCH_CUDA_ALLOC_CONF"] == "max_split_size_mb:64,expandable_segments:False"
    assert "PYTORCH_CUDA_ALLOC_CONF" not in settings(choose([node()], Layout(), {}))
    apart = settings(choose([node(pidfd_getfd=False)], Layout(colocated=False), {}))
    assert "PYTORCH_CUDA_ALLOC_CONF" not in apart


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({}, False),
        ({"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64,expandable_segments:True"}, True),
        ({"PYTORCH_ALLOC_CONF": "expandable_segments: true"}, True),
        ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"}, False),
    ],
)
def test_the_allocators_setting_is_read_as_torch_reads_it(env: dict[str, str], said: bool) -> None:
    assert expandable(env) is said


def test_the_interface_is_each_nodes_own_and_never_a_persons() -> None:
    found = interface_setting(node(interface="bond0"), {})
    assert found is not None
    assert found.value == "=bond0"
    assert interface_setting(node(interface=""), {}) is None
    assert interface_setting(node(), {"NCCL_SOCKET_IFNAME": "ib0"}) is None


def test_every_transport_can_be_chosen() -> None:
    chosen = {
        picked(node())[0],
        picked(node(cuda_ipc=False))[0],
        picked(node(), colocated=False)[0],
        picked(node(cuda_ipc=False), engine_nodes=2)[0],
    }
    assert chosen == set(ADAPTERS)
