"""Field reports 14 to 19: which copy of a library a process gets, and from where."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit.field.support import add, audit, environment, fired, image, only
from tests.writers.elf import Export, Import, write_elf

ROOT_HOME, USER_HOME = "/root", "/".join(("", "home", "ann"))
NVIDIA = "nvidia/nccl/lib/libnccl.so.2"


def rules(report_rules: dict[tuple[str, str], str]) -> set[str]:
    return {rule for rule, _subject in report_rules}


# --- 14: CUDA majors


@pytest.mark.parametrize(
    ("_thread", "soname"),
    [
        ("vllm-project/vllm#36099", "libcudart.so.12"),
        ("vllm-project/vllm#52300", "libcudart.so.13"),
        ("sibling: the run-time compiler", "libnvrtc.so.12"),
        ("sibling: cuBLAS", "libcublasLt.so.13"),
    ],
)
def test_14_runtime_of_a_major_that_is_not_there(tmp_path: Path, _thread: str, soname: str) -> None:
    env = environment(tmp_path)
    add(env, "ops", {"ops/_c.so": write_elf(needed=[soname, "libc.so.6"])})
    finding = only(audit(env.prefix), "needs-library", soname)
    assert "provided by nothing" in finding.message


def cuda(stem: str, major: int) -> bytes:
    return write_elf(soname=f"lib{stem}.so.{major}")


@pytest.mark.parametrize("stem", ["cudart", "nvJitLink", "cublas"])
def test_14_one_process_with_two_majors(tmp_path: Path, stem: str) -> None:
    """mooncake's wheel for CUDA 12 beside a torch for CUDA 13."""
    env = environment(tmp_path)
    for major in (12, 13):
        add(env, f"lib{major}", {f"lib{major}/lib{stem}.so.{major}": cuda(stem, major)})
    both = write_elf(needed=[f"lib{stem}.so.12", "libouter.so"], runpath="$ORIGIN/../lib12:$ORIGIN")
    outer = write_elf(soname="libouter.so", needed=[f"lib{stem}.so.13"], runpath="$ORIGIN/../lib13")
    add(env, "engine", {"engine/_c.so": both, "engine/libouter.so": outer})
    found = fired(audit(env.prefix))
    assert rules(found) == {"library-mix"}, found
    assert "error" in found.values()


def test_14_distributions_of_two_majors(tmp_path: Path) -> None:
    env = environment(tmp_path)
    add(env, "nvidia-cuda-runtime-cu12", {"nvidia/cuda_runtime/lib/libcudart.so.12": cuda("cudart", 12)})
    add(env, "nvidia-cuda-runtime", {"nvidia/cu13/lib/libcudart.so.13": cuda("cudart", 13)}, version="13.0.96")
    found = fired(audit(env.prefix))
    assert ("family", "CUDA 12 + 13") in found
    assert found["family", "CUDA 12 + 13"] == "warning"


def test_14_near_miss_sonames_that_belong_to_two_majors(tmp_path: Path) -> None:
    env = environment(tmp_path)
    add(env, "math", {"math/libcurand.so.10": cuda("curand", 10), "math/libcudart.so.13": cuda("cudart", 13)})
    needs = ["libcurand.so.10", "libcudart.so.13", "libcuda.so.1"]
    add(env, "user", {"user/_c.so": write_elf(needed=needs, runpath="$ORIGIN/../math")})
    assert fired(audit(env.prefix)) == {}


# --- 15: NCCL


def nccl(release: str, *exports: str) -> bytes:
    text = f"NCCL version {release}+cuda13.0\0".encode()
    return write_elf(soname="libnccl.so.2", sections=[(".rodata", text)], exports=[Export(name) for name in exports])


def test_15_two_packages_own_one_nccl(tmp_path: Path) -> None:
    """pytorch/pytorch#186591."""
    env = environment(tmp_path)
    add(env, "nvidia-nccl-cu12", {NVIDIA: nccl("2.29.3")}, version="2.29.3")
    add(env, "nvidia-nccl-cu13", {NVIDIA: nccl("2.29.7")}, version="2.29.7")
    found = fired(audit(env.prefix))
    assert {"file-conflict", "family"} <= rules(found)
    assert rules(found) <= {"file-conflict", "family", "duplicate-library", "library-mix"}
    assert "error" in found.values()


@pytest.mark.parametrize(
    ("_thread", "folder", "release"),
    [
        ("pytorch/pytorch#119932", "other/lib", "2.18.6"),
        ("NVIDIA/nccl#1267", "vendored.libs", "2.27.3"),
        ("sibling: a private copy of a communication library", "comm/_libs", "2.30.1"),
    ],
)
def test_15_two_releases_in_one_process(tmp_path: Path, _thread: str, folder: str, release: str) -> None:
    env = environment(tmp_path)
    add(env, "nvidia-nccl-cu13", {NVIDIA: nccl("2.28.9")}, version="2.28.9")
    add(env, "other", {f"{folder}/libnccl.so.2": nccl(release)})
    add(env, "a", {"a/_c.so": write_elf(needed=["libnccl.so.2"], runpath="$ORIGIN/../nvidia/nccl/lib")})
    add(env, "b", {"b/_c.so": write_elf(needed=["libnccl.so.2"], runpath=f"$ORIGIN/../{folder}")})
    finding = only(audit(env.prefix), "duplicate-library", "NCCL: libnccl.so.2")
    assert release in finding.evidence["copies"]
    assert "2.28.9" in finding.evidence["copies"]


@pytest.mark.parametrize("where", ["usr/lib/x86_64-linux-gnu", "usr/local/nccl/lib"])
def test_15_variable_that_gives_another_nccl(tmp_path: Path, where: str) -> None:
    """pytorch/pytorch#122571: the image's variable beats the run path of the wheel."""
    env = environment(tmp_path)
    add(env, "nvidia-nccl-cu13", {NVIDIA: nccl("2.28.9")}, version="2.28.9")
    data = write_elf(needed=["libnccl.so.2"], runpath="$ORIGIN/../nvidia/nccl/lib")
    add(env, "trainer", {"a/_c.so": data}, headers=["Requires-Dist: nvidia-nccl-cu13==2.28.9"])
    files = {f"{where}/libnccl.so.2": nccl("2.15.5")}
    variables = {"LD_LIBRARY_PATH": f"/{where}", "NCCL_VERSION": "2.15.5"}
    found = fired(audit(image(tmp_path, env, files, variables=variables)))
    assert found["duplicate-library", "trainer: libnccl.so.2"] == "error", found
    assert rules(found) == {"duplicate-library", "variable-conflict"}


@pytest.mark.parametrize("symbol", ["ncclCommWindowRegister", "ncclCommSuspend"])
def test_15_function_of_a_newer_nccl(tmp_path: Path, symbol: str) -> None:
    """verl-project/verl#6621 and NVIDIA/nccl#1784."""
    env = environment(tmp_path)
    add(env, "nvidia-nccl-cu13", {NVIDIA: nccl("2.25.1", "ncclCommInitRank")}, version="2.25.1")
    data = write_elf(
        needed=["libnccl.so.2"],
        runpath="$ORIGIN/../nvidia/nccl/lib",
        imports=[Import(symbol), Import("ncclCommInitRank")],
    )
    add(env, "a", {"a/_c.so": data})
    assert only(audit(env.prefix), "undefined-symbol", "a/_c.so").evidence["symbols"] == symbol


def test_15_near_miss_one_release(tmp_path: Path) -> None:
    env = environment(tmp_path)
    add(env, "nvidia-nccl-cu13", {NVIDIA: nccl("2.28.9", "ncclCommInitRank")}, version="2.28.9")
    data = write_elf(
        needed=["libnccl.so.2"], runpath="$ORIGIN/../nvidia/nccl/lib", imports=[Import("ncclCommInitRank")]
    )
    add(env, "a", {"a/_c.so": data})
    assert fired(audit(env.prefix)) == {}


# --- 16: cuDNN

CUDNN = "nvidia/cudnn/lib"
PARTS = ("", "_graph", "_ops", "_cnn", "_adv", "_engines_precompiled", "_engines_runtime_compiled", "_heuristic")


def cudnn(release: tuple[int, int, int]) -> dict[str, bytes]:
    """The libraries of one release by name."""
    data = bytes((release[2], release[1], release[0], 0))
    return {
        f"libcudnn{part}.so.9": write_elf(
            soname=f"libcudnn{part}.so.9",
            runpath="$ORIGIN",
            exports=[Export("cudnn_graph_version", data=data)] if part == "_graph" else [],
            sections=[(".rodata", b"cudnn_version_%d_%d_%d_\0" % release)],
        )
        for part in PARTS
    }


@pytest.mark.parametrize("where", ["usr/lib/x86_64-linux-gnu", "usr/local/cuda/lib64"])
@pytest.mark.parametrize("parts", [PARTS, ("_ops", "_graph")])
def test_16_two_groups_of_cudnn(tmp_path: Path, where: str, parts: tuple[str, ...]) -> None:
    """opendatalab/MinerU#2664, MahmoudAshraf97/whisper-diarization#343: cudnnGetLibConfig is undefined."""
    env = environment(tmp_path)
    add(env, "nvidia-cudnn-cu13", {f"{CUDNN}/{name}": data for name, data in cudnn((9, 19, 0)).items()}, version="9.19")
    other = {f"{where}/{name}": data for name, data in cudnn((9, 1, 0)).items() if name[8:-5] in parts}
    found = fired(audit(image(tmp_path, env, other, variables={"LD_LIBRARY_PATH": f"/{where}"})))
    assert rules(found) <= {"library-mix", "duplicate-library"}
    assert "error" in found.values(), found


def test_16_near_miss_one_group(tmp_path: Path) -> None:
    env = environment(tmp_path)
    add(env, "nvidia-cudnn-cu13", {f"{CUDNN}/{name}": data for name, data in cudnn((9, 19, 0)).items()}, version="9.19")
    assert fired(audit(image(tmp_path, env))) == {}


# --- 17: NVSHMEM

DEVICE = {"_ZL27nvshmemi_device_lib_version": bytes((3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0))}


@pytest.mark.parametrize(
    ("_thread", "path"),
    [
        ("NVIDIA-NeMo/Automodel#2614", "comm/deep_ep_cpp.so"),
        ("deepseek-ai/DeepEP#553", "deep_ep_like/deep_ep_cpp.cpython-312-x86_64-linux-gnu.so"),
        ("sibling: torch's own", "torchlike/lib/libtorch_nvshmem.so"),
    ],
)
@pytest.mark.parametrize(("host", "bad"), [("3.6.5", True), ("3.4.5", False)])
def test_17_device_half_of_another_release(tmp_path: Path, _thread: str, path: str, host: str, bad: bool) -> None:
    env = environment(tmp_path)
    library = write_elf(soname="libnvshmem_host.so.3", sections=[(".rodata", f"NVSHMEM v{host}\0".encode())])
    plug_ins = {name: write_elf(soname=name) for name in ("nvshmem_bootstrap_uid.so.3", "nvshmem_transport_ibrc.so.3")}
    files = {"libnvshmem_host.so.3": library, **plug_ins}
    add(env, "shmem", {f"nvidia/nvshmem/lib/{name}": data for name, data in files.items()}, version=host)
    up = "/".join(".." for _part in path.split("/")[:-1])
    data = write_elf(needed=["libnvshmem_host.so.3"], hidden=DEVICE, runpath=f"$ORIGIN/{up}/nvidia/nvshmem/lib")
    add(env, "user", {path: data})
    found = {subject for rule, subject in fired(audit(env.prefix)) if rule == "library-mix"}
    assert found == ({path} if bad else set())


# --- 18: run paths of the machine that built it


@pytest.mark.parametrize(
    ("_thread", "path", "severity"),
    [
        ("pypa/auditwheel#562", "/tmp/pip-build-env-8x/overlay/lib:$ORIGIN", "error"),
        ("deepseek-ai/DeepEP", f"{ROOT_HOME}/nvshmem/install/lib:$ORIGIN", "warning"),
        ("JuliaPackaging/Yggdrasil#3703", f"{USER_HOME}/work/lib:$ORIGIN", "warning"),
        ("sibling: a CI runner", "/__w/_temp/conda/lib:$ORIGIN", "warning"),
        ("sibling: GitLab", "/builds/team/project/out:$ORIGIN", "warning"),
    ],
)
@pytest.mark.parametrize("tag", ["rpath", "runpath"])
def test_18_run_path_of_the_builder(tmp_path: Path, _thread: str, path: str, severity: str, tag: str) -> None:
    env = environment(tmp_path)
    data = write_elf(needed=["libp.so.1"], **{tag: path})  # type: ignore[arg-type]
    add(env, "user", {"user/_c.so": data, "user/libp.so.1": write_elf(soname="libp.so.1")})
    ((rule, subject),) = fired(audit(env.prefix)).items()
    assert rule == ("run-path", f"user: {path.partition(':')[0]}")
    assert subject == severity


def test_18_near_miss(tmp_path: Path) -> None:
    env = environment(tmp_path)
    add(env, "p", {"p.libs/libp.so.1": write_elf(soname="libp.so.1")})
    add(env, "user", {"user/_c.so": write_elf(needed=["libp.so.1"], runpath="$ORIGIN/../p.libs:$ORIGIN")})
    assert fired(audit(env.prefix)) == {}


# --- 19: compat

COMPAT = {"usr/local/cuda-13.0/compat/libcuda.so.580.95": write_elf(soname="libcuda.so.1")}
LINKS = {"usr/local/cuda-13.0/compat/libcuda.so.1": "libcuda.so.580.95", "usr/local/cuda": "cuda-13.0"}


@pytest.mark.parametrize(
    ("_thread", "files", "variables"),
    [
        ("vllm-project/vllm#34226", {}, {"LD_LIBRARY_PATH": "/usr/local/cuda/compat:/usr/lib"}),
        ("vllm-project/vllm#33992", {"etc/ld.so.conf.d/00-cuda-compat.conf": b"/usr/local/cuda/compat\n"}, {}),
        ("gpustack/gpustack#4678", {}, {"LD_LIBRARY_PATH": "/usr/local/cuda-13.0/compat"}),
        ("sibling: named in the main file", {"etc/ld.so.conf": b"/usr/local/cuda-13.0/compat\n"}, {}),
    ],
)
def test_19_compat_in_front_of_the_driver(
    tmp_path: Path, _thread: str, files: dict[str, bytes], variables: dict[str, str]
) -> None:
    files = {"etc/ld.so.conf": b"include /etc/ld.so.conf.d/*.conf\n", **COMPAT, **files}
    found = fired(audit(image(tmp_path, None, files, links=LINKS, variables=variables)))
    assert rules(found) == {"compat-libcuda"}, found
    assert set(found.values()) == {"error"}


def test_19_near_miss_it_is_there_and_nothing_names_it(tmp_path: Path) -> None:
    files = {"etc/ld.so.conf": b"/usr/local/cuda/lib64\n", **COMPAT}
    variables = {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"}
    found = fired(audit(image(tmp_path, None, files, links=LINKS, variables=variables)))
    assert "compat-libcuda" not in rules(found)
    assert "error" not in found.values()
