"""companion-library: what is opened by name, as the opener would find it."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.findings import Severity
from tests.audit.rooted import judge_root, write_root
from tests.audit.support import judge
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter

RULE = "companion-library"
NVRTC = write_elf(soname="libnvrtc.so.13", sections=[(".rodata", b"Cuda compilation tools, release 13.0, V13.0.88\0")])


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return EnvironmentWriter(tmp_path / "e")


def cudnn(*parts: str) -> dict[str, bytes]:
    sonames = ["libcudnn.so.9", *(f"libcudnn_{part}.so.9" for part in parts)]
    return {f"nvidia/cudnn/lib/{soname}": write_elf(soname=soname, runpath="$ORIGIN") for soname in sonames}


def test_sub_library_of_cudnn_that_is_missing(env: EnvironmentWriter) -> None:
    env.add("nvidia-cudnn-cu13", cudnn("graph", "ops", "cnn", "heuristic"))
    first, second = judge(env.prefix, RULE)
    assert (first.subject, first.severity) == ("nvidia/cudnn/lib/libcudnn.so.9", Severity.ERROR)
    assert first.message.startswith("opens libcudnn_adv.so.9 by name")
    assert second.subject == "nvidia/cudnn/lib/libcudnn_graph.so.9"
    assert "engines_precompiled" in second.message


def test_whole_cudnn(env: EnvironmentWriter) -> None:
    parts = ("graph", "ops", "cnn", "adv", "heuristic", "engines_precompiled", "engines_runtime_compiled")
    env.add("nvidia-cudnn-cu13", cudnn(*parts))
    assert judge(env.prefix, RULE) == []


@pytest.mark.parametrize(
    ("builtins", "count"), [("libnvrtc-builtins.so.13.0", 0), ("libnvrtc-builtins.so.13.1", 1), ("", 1)]
)
def test_builtins_must_be_of_the_release_of_nvrtc(env: EnvironmentWriter, builtins: str, count: int) -> None:
    files = {"nvidia/cu13/lib/libnvrtc.so.13": NVRTC}
    if builtins:
        files[f"nvidia/cu13/lib/{builtins}"] = write_elf(soname=builtins)
    env.add("nvidia-cuda-nvrtc", files)
    found = judge(env.prefix, RULE)
    assert len(found) == count
    assert all("libnvrtc-builtins.so.13.0" in finding.message and finding.fatal for finding in found)


def test_nvrtc_that_does_not_state_its_release_is_not_judged(env: EnvironmentWriter) -> None:
    env.add("nvidia-cuda-nvrtc", {"nvidia/cu13/lib/libnvrtc.so.13": write_elf(soname="libnvrtc.so.13")})
    assert judge(env.prefix, RULE) == []


@pytest.mark.parametrize(
    ("plug_ins", "count"),
    [
        (["nvshmem_bootstrap_uid.so.3", "nvshmem_transport_ibrc.so.3"], 0),
        (["nvshmem_bootstrap_uid.so.3", "nvshmem_transport_ibrc.so.7"], 0),
        (["nvshmem_bootstrap_uid.so.3", "nvshmem_transport_ucx.so.7"], 1),
        ([], 1),
    ],
)
def test_plug_ins_of_any_interface_number(env: EnvironmentWriter, plug_ins: list[str], count: int) -> None:
    """NVSHMEM 3.8 numbers its transports 7, and its host library 3 as before."""
    names = ["libnvshmem_host.so.3", *plug_ins]
    files = {f"nvidia/nvshmem/lib/{name}": write_elf(soname=name, runpath="$ORIGIN") for name in names}
    env.add("nvidia-nvshmem-cu12", files)
    assert len(judge(env.prefix, RULE)) == count


def test_stub_opens_nothing(env: EnvironmentWriter) -> None:
    env.add("sdk", {"sdk/lib64/stubs/libcudnn.so.9": write_elf(soname="libcudnn.so.9")})
    assert judge(env.prefix, RULE) == []


PLUGIN = {"opt/aws/lib/libnccl-net-ofi.so": write_elf(soname="libnccl-net-ofi.so"), "usr/lib/libj.so.2": write_elf()}


@pytest.mark.parametrize(
    ("variables", "subjects"),
    [
        ({"NCCL_NET_PLUGIN": "ofi", "LD_LIBRARY_PATH": "/opt/aws/lib"}, []),
        ({"NCCL_NET_PLUGIN": "/opt/aws/lib/libnccl-net-ofi.so"}, []),
        ({"NCCL_NET_PLUGIN": "none"}, []),
        ({"NCCL_NET_PLUGIN": "gcp"}, ["NCCL_NET_PLUGIN=gcp"]),
        ({"NCCL_TUNER_PLUGIN": "/opt/aws/lib/none.so"}, ["NCCL_TUNER_PLUGIN=/opt/aws/lib/none.so"]),
        ({"LD_PRELOAD": "/usr/lib/libj.so.2"}, []),
        ({"LD_PRELOAD": "libj.so.2 libcuda.so.1:/usr/$LIB/libx.so"}, []),
        ({"LD_PRELOAD": "/usr/lib/libjemalloc.so.2:libj.so.2"}, ["LD_PRELOAD=/usr/lib/libjemalloc.so.2"]),
        ({"LD_PRELOAD": ""}, []),
    ],
)
def test_libraries_that_variables_of_an_image_name(
    tmp_path: Path, variables: dict[str, str], subjects: list[str]
) -> None:
    write_root(tmp_path, PLUGIN)
    found = judge_root(tmp_path, RULE, **variables)
    assert [finding.subject for finding in found] == subjects
    assert all(finding.severity is Severity.WARNING for finding in found)


@pytest.mark.parametrize(("line", "count"), [(b"/usr/lib/libj.so.2\n", 0), (b"# none\n", 0), (b"/none/libx.so\n", 1)])
def test_preload_file_of_an_image(tmp_path: Path, line: bytes, count: int) -> None:
    write_root(tmp_path, PLUGIN | {"etc/ld.so.preload": line})
    assert len(judge_root(tmp_path, RULE)) == count
