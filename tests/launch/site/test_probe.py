"""A site file filled in from a node: what is found, what is not, and that the result is always a sound site."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbit.errors import InputError
from orbit.launch.preflight.gpu_facts import Driver
from orbit.launch.preflight.handles import Taken
from orbit.launch.preflight.limits import Bounds
from orbit.launch.preflight.memory import Memory
from orbit.launch.preflight.processors import Processors
from orbit.launch.site.probe import MARK, find_scheduler, head, probe
from orbit.launch.site.text import render_site
from tests.launch.site.nodes import CONDOR, GIB, H100, POD, SLURM, adapter, check_sound, mount, node, tried


def test_a_whole_node_of_slurm() -> None:
    found = probe(node())
    site = check_sound(found)
    assert (site.scheduler, site.image.runtime, site.user.policy) == ("slurm", "pyxis", "caller")
    assert (site.nodes.gpus, site.nodes.gpu, site.nodes.cpus) == (8, "NVIDIA H100 80GB HBM3", 96)
    assert (site.nodes.memory_gib, site.nodes.most) == (1000, 2)
    assert (site.storage.scratch, site.storage.scratch_gib, site.storage.shared) == ("/local", 100, "/lustre")
    assert [(each.file_system, each.shared) for each in site.storage.mounts] == [("local", False), ("lustre", True)]
    assert (site.network.rdma, site.network.host_network, site.slurm.partition) == ("wanted", True, "gpu")
    assert (site.limits.memlock, site.limits.nofile, site.limits.shm_gib) == ("unlimited", 131072, 500)
    assert (site.limits.pidfd_getfd, site.limits.cuda_ipc) == (True, True)
    assert "SLURM_JOB_ID" in found.notes["scheduler"]
    assert set(found.open) == {
        "nodes.most", "image.repository", "slurm.account", "slurm.qos", "slurm.gres",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("env", "scheduler"),
    [(SLURM, "slurm"), (POD, "kubernetes"), (CONDOR, "htcondor"), ({}, "docker"), ({"SLURM_JOB_ID": ""}, "docker")],
)
def test_the_scheduler_is_known_by_its_variables(env: dict[str, str], scheduler: str) -> None:
    found, how = find_scheduler(env)
    assert found == scheduler
    assert how.startswith(MARK) == (scheduler == "docker")
    assert check_sound(probe(node(env=env))).scheduler == scheduler


def test_two_schedulers_at_once_are_for_a_person_to_settle() -> None:
    with pytest.raises(InputError) as caught:
        find_scheduler(POD | CONDOR)
    assert "_CONDOR_SCRATCH_DIR (htcondor)" in caught.value.what
    assert "--scheduler" in caught.value.fix
    assert find_scheduler(POD | CONDOR, "htcondor")[1].endswith("KUBERNETES_SERVICE_HOST of kubernetes is set")


@pytest.mark.parametrize(
    ("changed", "gpus", "said", "marked"),
    [
        ({"driver": Driver(missing="libcuda.so.1: no such file"), "cards": 0}, 0, "no NVIDIA device", False),
        ({"driver": Driver(missing="libcuda.so.1: no such file"), "cards": 8}, 0, "8 NVIDIA devices are on", True),
        ({"driver": Driver(status=802), "cards": 8}, 0, "cuInit answers 802", True),
        ({"driver": Driver(problem="no answer within 60 s"), "cards": 0}, 0, "no answer", True),
        ({"env": SLURM | {"CUDA_VISIBLE_DEVICES": "0,1"}, "driver": Driver(devices=(H100, H100))}, 2,
         "this job was given 0,1, the node has 8", False),
    ],
)  # fmt: skip
def test_gpus_that_cannot_be_used_are_told(changed: dict[str, Any], gpus: int, said: str, marked: bool) -> None:
    found = probe(node(**changed, cuda_ipc=None))
    assert check_sound(found).nodes.gpus == gpus
    assert said in found.notes["nodes.gpus"]
    assert found.notes["nodes.gpus"].startswith(MARK) == marked


def test_nodes_with_two_kinds_of_gpu_need_two_files() -> None:
    other = type(H100)(name="NVIDIA B200", uuid="GPU-2", capability="10.0", memory=1)
    found = probe(node(driver=Driver(devices=(H100, other))))
    assert "NVIDIA B200; one file for each kind" in found.notes["nodes.gpu"]


def test_the_cgroup_counts_not_the_machine() -> None:
    memory = Memory(total=1000 * GIB, available=1, limit=64 * GIB, shm=64 << 20, shm_free=1)
    found = probe(node(processors=Processors(allowed=96, cpuset=8, quota=3.5), memory=memory))
    site = check_sound(found)
    assert (site.nodes.cpus, site.nodes.memory_gib, site.limits.shm_gib) == (3, 64, 0)
    assert "a quota of 3.5" in found.notes["nodes.cpus"]
    assert "the machine has 1000 GiB" in found.notes["nodes.memory_gib"]
    assert "64 MiB here, too little" in found.notes["limits.shm_gib"]


def test_paths_of_the_node_are_not_known_in_a_container() -> None:
    found = probe(
        node(env=POD, container="docker", namespace="training", resolv="search training.svc.corp.test corp\n")
    )
    site = check_sound(found)
    assert found.notes["storage.mounts.0.host"].startswith(MARK)
    assert (site.network.cluster_domain, site.kubernetes.namespace) == ("corp.test", "training")
    assert not site.kubernetes.kuberay
    assert check_sound(probe(node(env=POD | {"RAY_CLUSTER_NAME": "x"}))).kubernetes.kuberay


@pytest.mark.parametrize(
    ("env", "proxy"),
    [
        ({"https_proxy": "http://proxy.example.org:3128"}, "http://proxy.example.org:3128"),
        ({"HTTP_PROXY": "proxy.example.org:3128/"}, "http://proxy.example.org:3128"),
        ({"https_proxy": "http://ann:pass1234@proxy.example.org:3128"}, "http://proxy.example.org:3128"),
        ({"https_proxy": "socks5://proxy.example.org:1080"}, ""),
        ({"https_proxy": "nonsense"}, ""),
    ],
)
def test_a_proxy_is_kept_without_its_password(env: dict[str, str], proxy: str) -> None:
    found = probe(node(env=SLURM | env | {"no_proxy": "localhost, .example.org,10.0.0.0/8"}))
    assert check_sound(found).network.proxy == proxy
    assert "pass1234" not in render_site(found.site, found.notes, head=head(found))
    if proxy:
        assert found.site.network.no_proxy == (".example.org", "10.0.0.0/8")
    else:
        assert "Left out: " in head(found)


def test_what_was_not_tried_is_taken_for_impossible() -> None:
    found = probe(node(taken=Taken(number=1)))
    assert (found.site.limits.pidfd_getfd, check_sound(found).limits.cuda_ipc) == (False, False)
    found = probe(node(taken=Taken(problem="no answer"), cuda_ipc=True))
    assert (check_sound(found).limits.cuda_ipc, found.notes["limits.pidfd_getfd"].startswith(MARK)) == (False, True)
    found = probe(node(cuda_ipc=None, ipc_problem="torch is not installed"))
    assert "torch is not installed" in found.notes["limits.cuda_ipc"]


def test_rdma_that_is_there_and_cannot_be_used_is_told() -> None:
    found = probe(node(adapters=(adapter(present=False),)))
    assert (check_sound(found).network.rdma, "mlx5_0" in found.notes["network.rdma"]) == ("none", True)
    assert check_sound(probe(node(adapters=()))).network.rdma == "none"


names = st.sampled_from(["/local", "/lustre", "/home/ann", "/data", "/opt/x y", "/home", "/root", "/mnt/a:b"])
kinds = st.sampled_from(["ext4", "lustre", "nfs4", "gpfs", "fuse.sshfs", "xfs", "9p"])


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([SLURM, POD, CONDOR, {}]), st.sampled_from(["", "docker", "podman", "apptainer", "enroot"]),
    st.dictionaries(names, kinds, max_size=4), st.sampled_from(["works", "shared", "missing ENOSYS", ""]),
    st.sampled_from(["", "EACCES", "EROFS", "ETIMEDOUT", "ENOTDIR"]), st.booleans(), st.integers(0, 8),
    st.integers(1, 1 << 40), st.sampled_from([None, 0, 1 << 16, 1 << 50]), st.sampled_from([0, 1, 1_000_660_000]),
)  # fmt: skip
def test_whatever_a_node_shows_the_file_is_sound(
    env: dict[str, str], container: str, places: dict[str, str], flock: str, error: str, executes: bool, gpus: int,
    amount: int, shm: int | None, uid: int,
) -> None:  # fmt: skip
    facts = node(
        env=env, container=container, uid=uid, mounts=tuple(mount(point, kind) for point, kind in places.items()),
        tried={point: tried(point, flock=flock, error=error, problem=error and f"{point}: {error}", executes=executes,
                            free=amount) for point in places},
        temporary=tried("/tmp", free=amount // 2), driver=Driver(devices=(H100,) * gpus),
        memory=Memory(total=amount, available=amount, shm=shm, shm_free=shm), bounds=Bounds(memlock=shm),
        cuda_ipc=executes if gpus else None,
    )  # fmt: skip
    check_sound(probe(facts))
