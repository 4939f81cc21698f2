"""What is known of vendor libraries holds for every folder, release and private copy, and for nothing named alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.audit.known.policy import Absent, Expectations
from orbit.audit.known.vendor import accepted, chooses, unshipped, vendor
from orbit.audit.rules.loading.needs_library import declared
from tests.audit.support import judge, make_policy
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter
from tests.writers.fatbin import write_container, write_section


@pytest.mark.parametrize(
    "path",
    [
        "nvidia/cu13/lib/libcublasLt.so.13",
        "nvidia/cublas/lib/libcublas.so.12",
        "usr/local/cuda-12.8/targets/x86_64-linux/lib/libcusparse.so.12.5.8.93",
        "lib/libcufft.so",
        "torch/lib/libcudnn_cnn_infer.so.8",
        "some.libs/libcublasLt-3b81d170.so.12",
        "cutensor/lib/libcutensor.so.2",
        "nvidia/nccl/lib/libnccl.so.2",
    ],
)
def test_known_libraries_choose_wherever_they_lie(path: str) -> None:
    assert chooses(path)


@pytest.mark.parametrize(
    "path",
    ["mine/libmycublas.so.12", "torch/lib/libtorch_cuda.so", "x/libnccl_ep.so", "transformer_engine/libcublas_ext.so"],
)
def test_names_that_only_look_like_one_do_not(path: str) -> None:
    assert not chooses(path)


def test_what_is_accepted_is_accepted_for_that_result_only() -> None:
    assert accepted("nvidia/cufile/lib/libcufile.so.0", "ptx-jit") is not None
    assert accepted("nvidia/cufile/lib/libcufile.so.0", "none") is None
    assert accepted("nvidia/cufile/lib/libcufile_rdma.so.1", "ptx-jit") is None


def test_plug_ins_lack_what_their_kind_of_system_has_and_nothing_else() -> None:
    assert unshipped("nvidia/nvshmem/lib/nvshmem_transport_ucx.so.7", "libucp.so.0") is not None
    assert unshipped("nvidia/nvshmem/lib/nvshmem_transport_ibrc.so.3", "libibverbs.so.1") is None
    assert unshipped("nvidia/nvshmem/lib/libnvshmem_host.so.3", "libfabric.so.1") is None
    module = "lib/python3.12/lib-dynload/{}.cpython-312-x86_64-linux-gnu.so"
    assert unshipped(module.format("_tkinter"), "libtk8.6.so") is not None
    assert unshipped(module.format("_ssl"), "libssl.so.3") is None


def test_entries_of_a_profile_come_first() -> None:
    own = Absent(
        files=("*/nvshmem_bootstrap_mpi.so.3",), sonames=("libmpi.so.40",), reason="said by the profile itself"
    )
    policy = make_policy(Expectations(schema=1, absent=(own,)))
    assert declared(policy, "n/nvshmem_bootstrap_mpi.so.3", "libmpi.so.40", "environment") is own
    assert declared(policy, "n/nvshmem_bootstrap_pmix.so.3", "libpmix.so.2", "environment") is not None
    assert declared(policy, "n/libmpi_user.so", "libmpi.so.40", "environment") is None


def test_every_entry_says_why() -> None:
    data = vendor()
    for entry in (*data.dispatching, *data.accepted, *data.absent):
        assert len(entry.reason.split()) > 5
        assert not any("/" in name for name in entry.names)


def test_a_library_too_old_for_a_target_is_still_found(tmp_path: Path) -> None:
    """cuBLAS 12.4 has nothing for Blackwell, 12.8 has: one folder, one name."""
    env = EnvironmentWriter(tmp_path / "e")
    hopper = [write_container("sm_80"), write_container("sm_90"), write_container("sm_90a")]
    path = "nvidia/cublas/lib/libcublasLt.so.12"
    env.add("nvidia-cublas-cu12", {path: write_elf(sections=[(".nv_fatbin", write_section(*hopper))])})
    (finding,) = judge(env.prefix, "arch-coverage")
    assert (finding.subject, finding.evidence["target"], finding.evidence["result"]) == (path, "b200", "none")
    both = write_elf(sections=[(".nv_fatbin", write_section(*hopper, write_container("sm_100")))])
    (env.site / path).write_bytes(both)
    assert judge(env.prefix, "arch-coverage") == []
