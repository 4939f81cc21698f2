"""jit-toolchain: each package that compiles at run time, with everything it needs and with one thing amiss."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import msgspec
import pytest

from orbit.audit.evaluate import evaluate
from orbit.audit.facts import Environment, ImageFacts, Layout
from orbit.audit.installed.environment import read_environment
from orbit.audit.known.policy import Policy, load_policy
from orbit.audit.rules import RULES
from orbit.core.console import Silent
from orbit.core.findings import Finding, Severity
from orbit.env.cuda_home import link_farm
from orbit.profile.model import load_profile
from tests.audit.known.test_jit import released
from tests.audit.support import make_policy
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter

RULE = RULES["jit-toolchain"]
TOOLKIT = "nvidia/cu13"
NVCC_FILES = {
    **{f"{TOOLKIT}/bin/{name}": released("13.0.88") for name in ("nvcc", "ptxas", "fatbinary", "nvlink", "cudafe++")},
    f"{TOOLKIT}/bin/cuobjdump": released("13.2.51"),
    f"{TOOLKIT}/nvvm/bin/cicc": released("13.0.88"),
    **{
        f"{TOOLKIT}/include/{name}": b""
        for name in ("cuda_runtime.h", "crt/host_config.h", "curand_kernel.h", "cublasLt.h", "cccl/cub/cub.cuh")
    },
    f"{TOOLKIT}/lib/libcudart.so.13": write_elf(soname="libcudart.so.13"),
}
TRITON_FILES = {
    "triton/backends/nvidia/bin/ptxas": released("12.8.93"),
    "triton/backends/nvidia/bin/ptxas-blackwell": released("12.9.86"),
    "triton/backends/nvidia/lib/libdevice.10.bc": b"BC",
    "triton/backends/nvidia/include/cuda.h": b"",
}
FLASHINFER_FILES = {
    "flashinfer/data/csrc/batch_decode.cu": b"",
    "flashinfer/data/include/flashinfer/norm.cuh": b"",
    "flashinfer/data/cutlass/include/cutlass/cutlass.h": b"",
}


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    """Triton, flashinfer, NVRTC and a CUDA_HOME, all there."""
    writer = EnvironmentWriter(tmp_path / "e")
    writer.add("nvidia-cuda-nvcc", NVCC_FILES, version="13.0.88")
    writer.add("triton", TRITON_FILES, version="3.6.0")
    writer.add("flashinfer-python", FLASHINFER_FILES, version="0.6.14")
    nvrtc = {
        f"{TOOLKIT}/lib/libnvrtc.so.13": write_elf(
            soname="libnvrtc.so.13", sections=[(".rodata", b"Cuda compilation tools, release 13.0, V13.0.88\0")]
        ),
        f"{TOOLKIT}/lib/libnvrtc-builtins.so.13.0": write_elf(soname="libnvrtc-builtins.so.13.0"),
    }
    writer.add("nvidia-cuda-nvrtc", nvrtc, version="13.0.88")
    for path in [*writer.site.rglob("bin/*")]:
        path.chmod(0o755)
    link_farm(writer.site, writer.prefix / "cuda", relative=True)
    (writer.prefix / "bin").mkdir()
    for name in ("ninja",):
        (writer.prefix / "bin" / name).write_bytes(b"#!/bin/sh\n")
        (writer.prefix / "bin" / name).chmod(0o755)
    (writer.prefix / "include/python3.12").mkdir(parents=True)
    (writer.prefix / "include/python3.12/Python.h").write_bytes(b"")
    return writer


def facts_of(writer: EnvironmentWriter, policy: Policy) -> Environment:
    return read_environment(writer.prefix, policy.profile, Silent())


def judge(writer: EnvironmentWriter, policy: Policy | None = None, **variables: str) -> list[Finding]:
    policy = policy or make_policy()
    facts = facts_of(writer, policy)
    facts = dataclasses.replace(facts, variables={**facts.variables, **variables})
    return list(RULE.check(facts, policy))


def subjects(findings: list[Finding]) -> list[str]:
    return [finding.subject for finding in findings]


def test_everything_there_is_clean(env: EnvironmentWriter) -> None:
    assert judge(env) == []


def test_ptxas_that_does_not_know_blackwell(env: EnvironmentWriter) -> None:
    (env.site / "triton/backends/nvidia/bin/ptxas-blackwell").write_bytes(released("12.4.131"))
    (finding,) = judge(env)
    assert finding.subject == "triton/backends/nvidia/bin/ptxas-blackwell"
    assert "is of CUDA 12.4 and cannot compile for sm_100a (b200) which CUDA has from 12.8 on" in finding.message
    assert finding.fatal


def test_a_profile_without_blackwell_needs_no_ptxas_for_it(env: EnvironmentWriter) -> None:
    (env.site / "triton/backends/nvidia/bin/ptxas-blackwell").unlink()
    policy = make_policy()
    hopper = tuple(target for target in policy.profile.targets if target.name == "h100")
    profile = msgspec.structs.replace(policy.profile, targets=hopper)
    assert judge(env, dataclasses.replace(policy, profile=profile)) == []


def test_triton_with_a_second_ptxas_needs_it(env: EnvironmentWriter) -> None:
    (env.site / "triton/backends/nvidia/bin/ptxas-blackwell").unlink()
    (finding,) = judge(env)
    assert (finding.subject, finding.fatal) == ("ptxas for Blackwell", True)


def test_old_triton_uses_one_ptxas_for_all(env: EnvironmentWriter) -> None:
    shutil.rmtree(env.site / "triton-3.6.0.dist-info")
    env.add("triton", {}, version="3.5.1")
    (env.site / "triton/backends/nvidia/bin/ptxas-blackwell").unlink()
    assert judge(env) == []  # 12.8 knows sm_100a
    (env.site / "triton/backends/nvidia/bin/ptxas").write_bytes(released("12.6.77"))
    (finding,) = judge(env)
    assert (finding.subject, "b200" in finding.message, "h100" in finding.message) == (
        "triton/backends/nvidia/bin/ptxas",
        True,
        False,
    )


def test_a_variable_wins_over_the_bundled_ptxas(env: EnvironmentWriter) -> None:
    (env.prefix / "old").mkdir()
    (env.prefix / "old/ptxas").write_bytes(released("12.4.131"))
    (env.prefix / "old/ptxas").chmod(0o755)
    findings = judge(env, TRITON_PTXAS_BLACKWELL_PATH="/opt/orbit/old/ptxas")
    assert subjects(findings) == ["old/ptxas"]
    assert subjects(judge(env, TRITON_PTXAS_PATH="/opt/orbit/nowhere")) == ["ptxas"]
    # a path outside the environment: nothing is known
    assert judge(env, TRITON_PTXAS_PATH="/usr/local/cuda/bin/ptxas") == []


@pytest.mark.parametrize(
    ("path", "subject", "user"),
    [
        ("triton/backends/nvidia/lib/libdevice.10.bc", "libdevice", "Triton"),
        ("triton/backends/nvidia/include/cuda.h", "cuda.h", "Triton"),
        ("flashinfer/data/include/flashinfer/norm.cuh", "headers of flashinfer", "flashinfer"),
        (f"{TOOLKIT}/bin/nvcc", "nvcc", "flashinfer"),
        (f"{TOOLKIT}/include/curand_kernel.h", "cuRAND headers", "flashinfer"),
        (f"{TOOLKIT}/include/crt/host_config.h", "headers of the CUDA compiler", "flashinfer"),
        (f"{TOOLKIT}/lib/libcudart.so.13", "libcudart.so to link with", "flashinfer"),
        (f"{TOOLKIT}/include/cuda_runtime.h", "CUDA headers", "flashinfer"),
    ],
)
def test_a_missing_part_is_named_with_who_needs_it(env: EnvironmentWriter, path: str, subject: str, user: str) -> None:
    (env.site / path).unlink()
    (finding,) = judge(env)
    assert (finding.subject, finding.fatal) == (subject, True)
    assert user in finding.message


def test_a_compiler_that_the_user_may_not_execute(env: EnvironmentWriter) -> None:
    (env.site / TOOLKIT / "bin/nvcc").chmod(0o644)
    (finding,) = judge(env)
    assert "0644" in finding.message
    assert "execute" in finding.message
    (env.site / TOOLKIT / "bin/nvcc").chmod(0o750)
    assert len(judge(env)) == 1
    assert judge(env, make_policy(uid=0)) == []


def test_a_header_needs_no_execute_bit(env: EnvironmentWriter) -> None:
    (env.site / "flashinfer/data/include/flashinfer/norm.cuh").chmod(0o444)
    assert judge(env) == []


def test_no_toolkit_is_a_warning_in_an_environment(env: EnvironmentWriter) -> None:
    shutil.rmtree(env.prefix / "cuda")
    (finding,) = judge(env)
    assert (finding.subject, finding.severity) == ("CUDA_HOME", Severity.WARNING)


def test_nvcc_without_the_tools_it_starts(env: EnvironmentWriter) -> None:
    (env.site / TOOLKIT / "nvvm/bin/cicc").unlink()
    (finding,) = judge(env)
    assert "nvcc without nvvm/bin/cicc" in finding.message
    assert finding.fatal


def test_kernels_compiled_ahead_make_it_a_warning(env: EnvironmentWriter) -> None:
    (env.site / TOOLKIT / "bin/nvcc").unlink()
    assert [finding.severity for finding in judge(env)] == [Severity.ERROR]
    env.add("flashinfer-jit-cache", {"flashinfer_jit_cache/__init__.py": b""})
    assert [finding.severity for finding in judge(env)] == [Severity.WARNING]


def test_a_program_that_the_host_may_bring_is_a_warning(env: EnvironmentWriter) -> None:
    (env.prefix / "bin/ninja").unlink()
    (finding,) = judge(env)
    assert (finding.subject, finding.severity) == ("ninja", Severity.WARNING)


def test_packages_that_are_not_installed_need_nothing(tmp_path: Path) -> None:
    writer = EnvironmentWriter(tmp_path / "e")
    writer.add("einops", {"einops/__init__.py": b""})
    assert judge(writer) == []


def test_optional_users_give_a_note(env: EnvironmentWriter) -> None:
    env.add("cuda-tile", {"cuda/tile/__init__.py": b""}, version="1.7.0")
    (finding,) = judge(env)
    assert (finding.subject, finding.severity) == ("tileiras", Severity.NOTE)


def test_tools_of_one_toolkit_are_of_one_release(env: EnvironmentWriter) -> None:
    (env.site / TOOLKIT / "bin/ptxas").write_bytes(released("12.9.86"))
    (finding,) = judge(env)
    assert finding.evidence["bin/ptxas"] == "12.9"
    assert finding.fatal


def test_another_release_of_cuobjdump_is_fine(env: EnvironmentWriter) -> None:
    assert release_line(env, "bin/cuobjdump") == "13.2.51"
    assert judge(env) == []


def release_line(env: EnvironmentWriter, name: str) -> str:
    data = (env.site / TOOLKIT / name).read_bytes()
    return data.partition(b", V")[2].partition(b"\0")[0].decode()


def test_nvrtc_without_builtins_of_its_release(env: EnvironmentWriter) -> None:
    folder = env.site / TOOLKIT / "lib"
    (folder / "libnvrtc-builtins.so.13.0").rename(folder / "libnvrtc-builtins.so.12.9")
    (finding,) = judge(env)
    assert "libnvrtc-builtins.so.13.0 is not beside it" in finding.message
    assert finding.evidence["there"] == "libnvrtc-builtins.so.12.9"
    (folder / "libnvrtc-builtins.so.12.9").rename(folder / "libnvrtc-builtins.so.13.0.88")
    assert judge(env) == []


def test_an_old_nvrtc_beside_a_new_one_is_a_warning(env: EnvironmentWriter) -> None:
    old = {
        "nvidia/cuda_nvrtc/lib/libnvrtc.so.12": write_elf(
            soname="libnvrtc.so.12", sections=[(".rodata", b"Cuda compilation tools, release 12.4, V12.4.127\0")]
        ),
        "nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.12.4": write_elf(soname="libnvrtc-builtins.so.12.4"),
    }
    env.add("nvidia-cuda-nvrtc-cu12", old, version="12.4.127")
    (finding,) = judge(env)
    assert (finding.severity, "sm_100a (b200)" in finding.message) == (Severity.WARNING, True)
    (env.site / TOOLKIT / "lib/libnvrtc.so.13").unlink()
    (finding,) = judge(env)
    assert finding.fatal


def as_image(facts: Environment, *, without: tuple[str, ...] = (), add: tuple[str, ...] = ()) -> Environment:
    """The same files as a whole root file system below opt/orbit, with a base system of the named files."""
    move = "opt/orbit/"
    program = facts.tree.entries["bin/ninja"]
    entries = {(move + path).rstrip("/"): fact for path, fact in facts.tree.entries.items()}
    base = ("usr/bin/gcc", "usr/bin/g++", "usr/include/stdlib.h", "sbin/ldconfig", "usr/lib64/libcuda.so", *add)
    entries |= {path: program for path in base if path not in without}
    entries |= {str(folder): facts.tree.entries[""] for path in list(entries) for folder in Path(path).parents}
    entries[""] = entries.pop(".")
    site = move + facts.layout.site
    return dataclasses.replace(
        facts,
        kind="image",
        layout=Layout(Path("/"), site, facts.layout.python, "", home="opt/orbit"),
        tree=dataclasses.replace(
            facts.tree,
            entries=entries,
            links={move + path: target for path, target in facts.tree.links.items()},
            above=(),
            rooted=True,
        ),
        objects=tuple(dataclasses.replace(item, path=move + item.path) for item in facts.objects),
        owners={move + path: owner for path, owner in facts.owners.items()},
        variables={"PATH": "/opt/orbit/bin:/usr/bin:/bin", "CUDA_HOME": "/opt/orbit/cuda"},
        image=ImageFacts("x", "sha256:0", "", (), (), "/", {}, "amd64", ()),
    )


def test_an_image_must_have_the_host_compiler(env: EnvironmentWriter) -> None:
    policy = make_policy()
    facts = facts_of(env, policy)
    assert list(RULE.check(as_image(facts), policy)) == []
    findings = list(RULE.check(as_image(facts, without=("usr/bin/gcc", "usr/bin/g++")), policy))
    assert subjects(findings) == ["C compiler", "C++ host compiler"]
    (finding,) = RULE.check(as_image(facts, without=("usr/include/stdlib.h",)), policy)
    assert finding.subject == "headers of the C library"


def test_an_image_gets_libcuda_from_the_driver(env: EnvironmentWriter) -> None:
    policy = make_policy()
    (finding,) = RULE.check(as_image(facts_of(env, policy), without=("usr/lib64/libcuda.so",)), policy)
    assert (finding.severity, "LIBRARY_PATH" in finding.fix) == (Severity.NOTE, True)


def test_an_image_without_a_toolkit_fails(env: EnvironmentWriter) -> None:
    policy = make_policy()
    image = as_image(facts_of(env, policy))
    bare = dataclasses.replace(image, variables={"PATH": "/usr/bin:/opt/orbit/bin"})
    findings = {finding.subject: finding for finding in RULE.check(bare, policy)}
    assert set(findings) == {"CUDA_HOME"}
    assert findings["CUDA_HOME"].fatal
    by_path = dataclasses.replace(image, variables={"PATH": "/usr/bin:/opt/orbit/bin:/opt/orbit/cuda/bin"})
    assert list(RULE.check(by_path, policy)) == []


def test_the_wheels_of_cuda_12_make_a_toolkit_without_nvcc_and_their_profile_accepts_that(tmp_path: Path) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    env.add("flashinfer-python", FLASHINFER_FILES)
    env.add("nvidia-cuda-nvcc-cu12", {"nvidia/cuda_nvcc/bin/ptxas": released("12.8.93")})
    env.add("nvidia-cuda-runtime-cu12", {"nvidia/cuda_runtime/include/cuda_runtime.h": b""})
    link_farm(env.prefix / "lib/python3.12/site-packages", env.prefix / "cuda", relative=True)
    policy = load_policy(load_profile("cu128"))
    facts = read_environment(env.prefix, policy.profile, Silent())
    assert "FLASHINFER_NVCC" not in facts.variables
    (nvcc,) = (item for item in evaluate(facts, policy, [RULE]) if item.subject == "nvcc")
    assert (nvcc.severity, bool(nvcc.waiver)) == (Severity.ERROR, True)
    other = load_policy(load_profile("cu130"))
    (nvcc,) = (item for item in evaluate(facts, other, [RULE]) if item.subject == "nvcc")
    assert not nvcc.waiver
