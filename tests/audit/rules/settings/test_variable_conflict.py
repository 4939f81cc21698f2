"""variable-conflict: each variable true of the content, then each way in which it is not."""

from __future__ import annotations

import dataclasses

import pytest

from orbit.audit.rules import RULES
from orbit.audit.rules.settings.variable_conflict import parse_archs
from orbit.core.findings import Finding, Severity
from tests.audit.known.test_jit import released
from tests.audit.rules.settings.rootfs import PREFIX, Rootfs, judge_environment, judge_image
from tests.audit.support import make_policy
from tests.writers.elf import write_elf

RULE = RULES["variable-conflict"]

TOOLKIT = f"{PREFIX}/cuda"


@pytest.fixture
def image(rootfs: Rootfs) -> Rootfs:
    """With a toolkit of CUDA 13.0 and its run time."""
    rootfs.write(f"{TOOLKIT}/bin/nvcc", released("13.0.88"), 0o755)
    rootfs.write(f"{TOOLKIT}/lib64/libcudart.so.13", write_elf(soname="libcudart.so.13"))
    rootfs.env.add(
        "nvidia-nccl-cu13", {"nvidia/nccl/lib/libnccl.so.2": write_elf(soname="libnccl.so.2")}, version="2.28.9"
    )
    return rootfs


def only(findings: list[Finding]) -> Finding:
    assert len(findings) == 1, [(finding.subject, finding.message) for finding in findings]
    return findings[0]


def test_true_variables_are_clean(image: Rootfs) -> None:
    values = {
        "CUDA_HOME": "/opt/orbit/cuda",
        "CUDA_PATH": "/opt/orbit/cuda/",
        "LD_LIBRARY_PATH": "/opt/orbit/cuda/lib64:/usr/local/nvidia/lib64",
        "TORCH_CUDA_ARCH_LIST": "9.0a 10.0a",
        "NCCL_VERSION": "2.28.9-1",
        "FLASHINFER_NVCC": "/opt/orbit/cuda/bin/nvcc",
    }
    assert judge_image(RULE, image, values) == []
    assert judge_image(RULE, image) == []


# --- CUDA_HOME


def test_a_toolkit_that_is_not_there_or_none(image: Rootfs) -> None:
    finding = only(judge_image(RULE, image, {"CUDA_HOME": "/usr/local/cuda"}))
    assert (finding.subject, finding.severity) == ("CUDA_HOME", Severity.ERROR)
    assert "no CUDA toolkit" in only(judge_image(RULE, image, {"CUDA_PATH": "/opt/orbit"})).message


def test_headers_alone_are_a_toolkit(image: Rootfs) -> None:
    image.write("usr/local/cuda/include/cuda.h", b"")
    assert judge_image(RULE, image, {"CUDA_HOME": "/usr/local/cuda"}) == []


def test_two_toolkits(image: Rootfs) -> None:
    image.write("usr/local/cuda/bin/nvcc", released("13.0.48"), 0o755)
    values = {"CUDA_HOME": "/opt/orbit/cuda", "CUDA_PATH": "/usr/local/cuda"}
    finding = only(judge_image(RULE, image, values))
    assert (finding.subject, finding.evidence) == ("CUDA_HOME and CUDA_PATH", values)
    (image.root / "usr/local/cuda/bin/nvcc").unlink()
    (image.root / "usr/local/cuda/bin").rmdir()
    (image.root / "usr/local/cuda").rmdir()
    (image.root / "usr/local/cuda").symlink_to("/opt/orbit/cuda")
    assert judge_image(RULE, image, values) == []


def test_a_toolkit_of_another_major(image: Rootfs) -> None:
    image.write(f"{TOOLKIT}/bin/nvcc", released("12.8.93"), 0o755)
    finding = only(judge_image(RULE, image, {"CUDA_HOME": "/opt/orbit/cuda"}))
    assert "CUDA 12.8" in finding.message
    assert finding.fatal
    image.write(f"{TOOLKIT}/bin/nvcc", released("13.2.10"), 0o755)
    assert only(judge_image(RULE, image, {"CUDA_HOME": "/opt/orbit/cuda"})).severity is Severity.NOTE


# --- lists of folders


@pytest.mark.parametrize(
    ("value", "words", "severity"),
    [
        ("/opt/orbit/cuda/lib64:", "empty entry", Severity.WARNING),
        (":/opt/orbit/cuda/lib64", "empty entry", Severity.WARNING),
        ("lib:/opt/orbit/cuda/lib64", "relative", Severity.WARNING),
        ("/opt/gone/lib", "not there", Severity.NOTE),
        ("/etc/passwd", "no folders", Severity.WARNING),
        ("/tmp", "anybody may write", Severity.WARNING),
    ],
)
def test_library_paths(image: Rootfs, value: str, words: str, severity: Severity) -> None:
    finding = only(judge_image(RULE, image, {"LD_LIBRARY_PATH": value}))
    assert (finding.subject, finding.severity, words in finding.message) == ("LD_LIBRARY_PATH", severity, True)


def test_stubs_in_the_library_path(image: Rootfs) -> None:
    image.folder(f"{TOOLKIT}/lib64/stubs")
    finding = only(judge_image(RULE, image, {"LD_LIBRARY_PATH": "/opt/orbit/cuda/lib64/stubs"}))
    assert "stub" in finding.message
    assert finding.fatal
    image.folder("opt/stubs-of-tests")
    assert judge_image(RULE, image, {"LD_LIBRARY_PATH": "/opt/stubs-of-tests"}) == []


def test_preloads(image: Rootfs) -> None:
    image.write("usr/lib/libjemalloc.so.2", write_elf(soname="libjemalloc.so.2"))
    for value in ("/usr/lib/libjemalloc.so.2", "libjemalloc.so.2", "", "/usr/$LIB/libhook.so"):
        assert judge_image(RULE, image, {"LD_PRELOAD": value}) == []
    finding = only(judge_image(RULE, image, {"LD_PRELOAD": "/usr/lib/libjemalloc.so.2 /usr/lib/libtc.so"}))
    assert finding.evidence["missing"] == "/usr/lib/libtc.so"
    assert only(judge_image(RULE, image, {"LD_PRELOAD": "libtc.so.4"})).subject == "LD_PRELOAD"


def test_module_paths(image: Rootfs) -> None:
    image.write("app/tool.py", b"")
    image.write("app/data/readme.txt", b"")
    assert judge_image(RULE, image, {"PYTHONPATH": "/app"}) == []
    assert "current folder" in only(judge_image(RULE, image, {"PYTHONPATH": "/app:"})).message
    assert only(judge_image(RULE, image, {"PYTHONPATH": "/gone"})).severity is Severity.NOTE
    image.write("app/good/__init__.py", b"")
    image.env.add("good", {"good/__init__.py": b""})
    finding = only(judge_image(RULE, image, {"PYTHONPATH": "/app"}))
    assert finding.evidence["shadowed"] == "good"
    assert judge_image(RULE, image, {"PYTHONPATH": f"/{PREFIX}/lib/python3.12/site-packages"}) == []


# --- releases, paths, architectures


def test_the_library_of_a_base_image(image: Rootfs) -> None:
    finding = only(judge_image(RULE, image, {"NCCL_VERSION": "2.21.5-1"}))
    assert "says NCCL 2.21.5, but nvidia/nccl/lib/libnccl.so.2 is 2.28.9" in finding.message
    assert judge_image(RULE, image, {"NCCL_VERSION": "2.28.9-1+cuda13.0"}) == []
    assert judge_image(RULE, image, {"NCCL_VERSION": "unknown"}) == []
    assert judge_image(RULE, image, {"NVSHMEM_VERSION": "3.0.0"}) == []


def test_the_release_in_the_file_wins_over_that_of_the_wheel(image: Rootfs) -> None:
    facts = image.facts({"NCCL_VERSION": "2.27.3-1"})
    objects = tuple(
        dataclasses.replace(item, release="2.27.3") if item.path.endswith("libnccl.so.2") else item
        for item in facts.objects
    )
    assert list(RULE.check(dataclasses.replace(facts, objects=objects), make_policy())) == []


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("TRITON_PTXAS_PATH", "/usr/local/cuda/bin/ptxas", "not there"),
        ("FLASHINFER_NVCC", "/opt/orbit/cuda", "no program"),
        ("CUDACXX", "/etc/passwd", "may not execute"),
        ("SSL_CERT_FILE", "/etc/ssl/corporate.pem", "not there"),
        ("NCCL_HOME", "/etc/passwd", "no folder"),
    ],
)
def test_named_paths(image: Rootfs, name: str, value: str, words: str) -> None:
    finding = only(judge_image(RULE, image, {name: value}))
    assert (finding.subject, finding.fatal) == (name, True)
    assert words in finding.message


def test_programs_with_arguments_and_bare_names(image: Rootfs) -> None:
    assert judge_image(RULE, image, {"CUDACXX": "/opt/orbit/cuda/bin/nvcc -v"}) == []
    assert judge_image(RULE, image, {"CUDACXX": "nvcc"}) == []


@pytest.mark.parametrize(
    ("name", "value", "targets"),
    [
        ("TORCH_CUDA_ARCH_LIST", "9.0a 10.0a", []),
        ("TORCH_CUDA_ARCH_LIST", "8.0;9.0;10.0+PTX", []),
        ("TORCH_CUDA_ARCH_LIST", "Hopper;Blackwell", []),
        ("TORCH_CUDA_ARCH_LIST", "9.0a", ["b200"]),
        ("TORCH_CUDA_ARCH_LIST", "9.0+PTX", ["b200"]),
        ("TORCH_CUDA_ARCH_LIST", "8.0 10.0a", ["h100"]),
        ("FLASHINFER_CUDA_ARCH_LIST", "9.0a 10.3a", ["b200"]),
        ("CUDAARCHS", "90a-real;100a-real", []),
        ("CMAKE_CUDA_ARCHITECTURES", "90-virtual", ["h100", "b200"]),
        ("NVTE_CUDA_ARCHS", "90;100", []),
        ("NVTE_CUDA_ARCHS", "90", ["b200"]),
        ("CUDAARCHS", "native", []),
        ("TORCH_CUDA_ARCH_LIST", "", []),
    ],
)
def test_architecture_lists(rootfs: Rootfs, name: str, value: str, targets: list[str]) -> None:
    findings = judge_image(RULE, rootfs, {name: value})
    assert [finding.evidence["target"] for finding in findings] == targets


def test_an_architecture_that_is_gone(rootfs: Rootfs) -> None:
    finding = only(judge_image(RULE, rootfs, {"TORCH_CUDA_ARCH_LIST": "7.0 9.0 10.0"}))
    assert "sm_70" in finding.message
    assert parse_archs("9.0 what") == frozenset()


def test_an_environment_judges_only_what_is_inside(image: Rootfs) -> None:
    outside = {
        "CUDA_PATH": "/opt/orbit/cuda",
        "LD_LIBRARY_PATH": "/usr/lib:/opt/orbit/cuda/lib64",
        "PYTHONPATH": "/srv/app",
        "LD_PRELOAD": "/usr/lib/libjemalloc.so.2",
        "SSL_CERT_FILE": "/etc/ssl/corporate.pem",
    }
    assert judge_environment(RULE, image.env, **outside) == []
    finding = only(judge_environment(RULE, image.env, LD_LIBRARY_PATH="/opt/orbit/gone"))
    assert finding.evidence["entries"] == "/opt/orbit/gone"
