"""library-mix: split cuDNN, halves of NVSHMEM, CUDA majors in one process, distributions side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.findings import Severity
from tests.audit.rooted import SITE, judge_root, write_root
from tests.audit.support import judge
from tests.writers.elf import Export, write_elf
from tests.writers.environment import EnvironmentWriter

RULE = "library-mix"
FOLDER = "nvidia/cudnn/lib"


def cudnn(part: str, release: tuple[int, int, int] | None = None) -> bytes:
    data = bytes((release[2], release[1], release[0], 0)) if release else b""
    exports = [Export(f"cudnn_{part}_infer_version", data=data)] if data else []
    return write_elf(soname=f"libcudnn{f'_{part}' if part else ''}.so.9", runpath="$ORIGIN", exports=exports)


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return EnvironmentWriter(tmp_path / "e")


def whole_cudnn(folder: str) -> dict[str, bytes]:
    parts = {"": cudnn(""), "_ops": cudnn("ops", (9, 19, 0)), "_adv": cudnn("adv", (9, 19, 0))}
    return {f"{folder}/libcudnn{part}.so.9": data for part, data in parts.items()}


def test_whole_cudnn_of_one_folder(env: EnvironmentWriter) -> None:
    env.add("nvidia-cudnn-cu13", whole_cudnn(FOLDER))
    assert judge(env.prefix, RULE) == []


def test_cudnn_that_a_variable_splits(tmp_path: Path) -> None:
    """LD_LIBRARY_PATH beats the run path $ORIGIN that NVIDIA's wheels have."""
    wheel = {f"{SITE}/{path}": data for path, data in whole_cudnn(FOLDER).items()}
    write_root(tmp_path, wheel | {"opt/cudnn/libcudnn_ops.so.9": cudnn("ops", (9, 1, 0))})
    (finding,) = judge_root(tmp_path, RULE, LD_LIBRARY_PATH="/opt/cudnn")
    assert (finding.subject, finding.severity) == (f"{FOLDER}/libcudnn.so.9", Severity.ERROR)
    assert finding.evidence == {"from": "opt/cudnn/libcudnn_ops.so.9", "found by": "LD_LIBRARY_PATH"}
    assert judge_root(tmp_path, RULE) == []


def test_two_releases_in_one_folder(env: EnvironmentWriter) -> None:
    env.add("nvidia-cudnn-cu13", whole_cudnn(FOLDER) | {f"{FOLDER}/libcudnn_adv.so.9": cudnn("adv", (9, 10, 2))})
    (finding,) = judge(env.prefix, RULE)
    assert finding.evidence == {"releases": "9.10.2: libcudnn_adv.so.9; 9.19.0: libcudnn_ops.so.9"}


DEVICE = {"_ZL27nvshmemi_device_lib_version": bytes((3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0))}


def nvshmem(release: str) -> bytes:
    return write_elf(soname="libnvshmem_host.so.3", sections=[(".rodata", f"NVSHMEM v{release}\0".encode())])


@pytest.mark.parametrize(
    ("host", "severities"), [("3.6.5", [Severity.ERROR]), ("3.4.6", [Severity.WARNING]), ("3.4.5", [])]
)
def test_halves_of_nvshmem(env: EnvironmentWriter, host: str, severities: list[Severity]) -> None:
    env.add("host", {"nvidia/nvshmem/lib/libnvshmem_host.so.3": nvshmem(host)})
    env.add("deep-ep", {"deep_ep_cpp.so": write_elf(needed=["libnvshmem_host.so.3"], hidden=DEVICE)})
    found = judge(env.prefix, RULE)
    assert [finding.severity for finding in found] == severities
    assert all(finding.subject == "deep_ep_cpp.so" and "3.4.5 linked in" in finding.message for finding in found)


def test_only_the_host_half_that_is_loaded_counts(env: EnvironmentWriter) -> None:
    env.add("old", {"old/libnvshmem_host.so.3": nvshmem("3.2.5")})
    env.add("right", {"right/libnvshmem_host.so.3": nvshmem("3.4.5")})
    parts = {"needed": ["libnvshmem_host.so.3"], "hidden": DEVICE, "runpath": "$ORIGIN/right"}
    env.add("deep-ep", {"deep_ep_cpp.so": write_elf(**parts)})  # type: ignore[arg-type]
    assert judge(env.prefix, RULE) == []


def cuda(env: EnvironmentWriter, *majors: int) -> None:
    for major in majors:
        files = {f"nvidia/cu{major}/lib/libcudart.so.{major}": write_elf(soname=f"libcudart.so.{major}")}
        env.add(f"runtime-{major}", files)


def test_one_file_with_both_majors(env: EnvironmentWriter) -> None:
    cuda(env, 12, 13)
    env.add("torch", {"torch/lib/libtorch_cuda.so": write_elf(soname="libtorch_cuda.so", needed=["libcudart.so.13"])})
    env.add("ext", {"ext/_c.so": write_elf(needed=["libtorch_cuda.so", "libcudart.so.12"])})
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.severity) == ("ext/_c.so", Severity.ERROR)
    assert "CUDA 12 and 13" in finding.message


def test_files_of_two_majors_side_by_side(env: EnvironmentWriter) -> None:
    cuda(env, 12, 13)
    env.add(
        "torch",
        {"torch/a.so": write_elf(needed=["libcudart.so.13"]), "torch/b.so": write_elf(needed=["libcudart.so.13"])},
    )
    env.add("mooncake", {"mooncake/engine.so": write_elf(needed=["libcudart.so.12"])})
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.severity) == ("mooncake/engine.so", Severity.WARNING)


@pytest.mark.parametrize("needed", [["libcudart.so.13"], ["libcudart.so.13", "libcusparse.so.12", "libcurand.so.10"]])
def test_libraries_of_one_major_and_those_that_belong_to_two(env: EnvironmentWriter, needed: list[str]) -> None:
    """libcusparse.so.12 is CUDA 12's and CUDA 13's; a cu12 runtime that nothing uses mixes nothing."""
    cuda(env, 12, 13)
    env.add("more", {f"nvidia/cu13/lib/{soname}": write_elf(soname=soname) for soname in needed[1:]})
    env.add("torch", {"torch/a.so": write_elf(needed=needed)})
    assert judge(env.prefix, RULE) == []


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["nvidia-nccl-cu12", "nvidia-nccl-cu13"], "nvidia-nccl-cu12 and nvidia-nccl-cu13"),
        (["nvidia-cublas", "nvidia-cublas-cu12"], "nvidia-cublas and nvidia-cublas-cu12"),
        (["nvidia-cublas", "nvidia-cudnn-cu13"], ""),
        (["transformer-engine", "transformer-engine-cu13"], ""),
        (["nvidia-nccl-cu13", "nvidia-nvshmem-cu13"], ""),
    ],
)
def test_distributions_for_two_majors(env: EnvironmentWriter, names: list[str], shown: str) -> None:
    for name in names:
        env.add(name, {f"{name}.txt": b""})
    found = judge(env.prefix, RULE)
    assert [finding.evidence["distributions"] for finding in found] == ([shown] if shown else [])
    assert all(finding.severity is Severity.WARNING for finding in found)


def test_distribution_that_wants_both_majors_may_have_them(env: EnvironmentWriter) -> None:
    """nvidia-cutlass-dsl brings its libraries for CUDA 12 always and those for CUDA 13 with an extra."""
    headers = ["Requires-Dist: dsl-libs-cu12==4.6.0", 'Requires-Dist: dsl-libs-cu13==4.6.0; extra == "cu13"']
    env.add("dsl", {"dsl.py": b""}, headers=headers)
    for name in ("dsl-libs-cu12", "dsl-libs-cu13"):
        env.add(name, {f"{name}.txt": b""})
    assert judge(env.prefix, RULE) == []
