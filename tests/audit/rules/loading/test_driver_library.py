"""driver-library: copies of the driver's libraries, leftovers of a GPU container, and stubs on a search path."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.findings import Severity
from tests.audit.rooted import SITE, judge_root, write_root
from tests.audit.support import judge
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter

RULE = "driver-library"
CUDA = write_elf(soname="libcuda.so.1")
LIB = "usr/lib/x86_64-linux-gnu"


def summary(root: Path, **variables: str) -> list[tuple[str, Severity]]:
    return [(finding.subject, finding.severity) for finding in judge_root(root, RULE, **variables)]


@pytest.mark.parametrize(
    ("path", "data", "severity"),
    [
        (f"{LIB}/libcuda.so.550.54.15", CUDA, Severity.ERROR),
        (f"{LIB}/libnvidia-ml.so.1", CUDA, Severity.ERROR),
        (f"{LIB}/libnvidia-ptxjitcompiler.so.570.1", b"", Severity.ERROR),
        ("opt/backup/libcuda.so.1", b"", Severity.ERROR),
        ("opt/backup/libcuda.so.1", CUDA, Severity.WARNING),
    ],
)
def test_copy_in_an_image(tmp_path: Path, path: str, data: bytes, severity: Severity) -> None:
    write_root(tmp_path, {path: data})
    assert summary(tmp_path) == [(path.rpartition("/")[0], severity)]


@pytest.mark.parametrize(
    "path",
    [
        "usr/local/cuda-13.0/compat/libcuda.so.580.1",
        "usr/local/cuda-13.0/targets/x86_64-linux/lib/stubs/libcuda.so",
        f"{LIB}/libnvidia-container.so.1.17.0",
        f"{LIB}/libnvidia-container-go.so.1",
        f"{SITE}/tilelang/lib/libcuda_stub.so",
        f"{SITE}/cuda/bindings/_lib/libcudart.so.13",
        f"{SITE}/nvidia/libcuda.so.d/readme.txt",
    ],
)
def test_what_only_looks_like_it(tmp_path: Path, path: str) -> None:
    write_root(tmp_path, {path: CUDA})
    assert summary(tmp_path) == []


def test_link_to_the_hosts_library_is_no_copy(tmp_path: Path) -> None:
    write_root(tmp_path, {}, {f"{LIB}/libcuda.so.1": "libcuda.so.580.95"})
    assert summary(tmp_path) == []


def test_copy_in_a_wheel_that_is_installed(tmp_path: Path) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    env.add("greedy", {"greedy.libs/libcuda.so.1": CUDA, "greedy.libs/libz.so.1": write_elf(soname="libz.so.1")})
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.severity) == ("greedy.libs", Severity.WARNING)


def test_copy_that_a_wheel_was_repaired_with(tmp_path: Path) -> None:
    """auditwheel without --exclude gives the driver's library a name of its own: it is loaded for certain."""
    env = EnvironmentWriter(tmp_path / "e")
    user = write_elf(needed=["libcuda-6a29c32d.so.570.1"], rpath="$ORIGIN/../greedy.libs")
    copy = write_elf(soname="libcuda-6a29c32d.so.570.1")
    env.add("greedy", {"greedy.libs/libcuda-6a29c32d.so.570.1": copy, "greedy/_c.so": user})
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.severity) == ("greedy.libs", Severity.ERROR)


STUBS = "usr/local/cuda/lib64/stubs"


@pytest.mark.parametrize(
    ("files", "variables", "subjects"),
    [
        ({}, {"LD_LIBRARY_PATH": f"/{STUBS}"}, [STUBS]),
        ({"etc/ld.so.conf": f"/{STUBS}\n".encode()}, {}, [STUBS]),
        ({}, {"LIBRARY_PATH": f"/{STUBS}"}, []),
        ({}, {"LD_LIBRARY_PATH": "/usr/local/cuda/lib64"}, []),
    ],
)
def test_stubs_where_the_loader_looks(
    tmp_path: Path, files: dict[str, bytes], variables: dict[str, str], subjects: list[str]
) -> None:
    write_root(tmp_path, {f"{STUBS}/libcuda.so": CUDA, f"{STUBS}/libcuda.so.1": CUDA, **files})
    assert summary(tmp_path, **variables) == [(subject, Severity.ERROR) for subject in subjects]


def test_stubs_of_other_libraries_are_no_matter_here(tmp_path: Path) -> None:
    write_root(tmp_path, {f"{STUBS}/libnccl.so": write_elf()})
    assert summary(tmp_path, LD_LIBRARY_PATH=f"/{STUBS}") == []


def test_run_path_that_finds_a_stub(tmp_path: Path) -> None:
    user = write_elf(needed=["libcuda.so.1"], runpath=f"/{STUBS}")
    write_root(tmp_path, {f"{STUBS}/libcuda.so.1": CUDA, f"{SITE}/user/_c.so": user})
    assert summary(tmp_path) == [("user/_c.so", Severity.ERROR)]
