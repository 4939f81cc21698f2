"""duplicate-library: copies by release, who gets them, whose they are, and what was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.findings import Finding, Severity
from tests.audit.rooted import SITE, judge_root, write_root
from tests.audit.support import judge
from tests.writers.elf import Export, write_elf
from tests.writers.environment import EnvironmentWriter

RULE = "duplicate-library"


def nccl(release: str) -> bytes:
    return write_elf(soname="libnccl.so.2", sections=[(".rodata", f"NCCL version {release}+cuda13.0\0".encode())])


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return EnvironmentWriter(tmp_path / "e")


def user(env: EnvironmentWriter, name: str, folder: str, **parts: object) -> None:
    """An extension that gets libnccl.so.2 of a folder of site-packages."""
    data = write_elf(needed=["libnccl.so.2"], runpath=f"$ORIGIN/../{folder}", **parts)  # type: ignore[arg-type]
    env.add(name, {f"{name}/_c.so": data})


def summary(findings: list[Finding]) -> list[tuple[str, Severity]]:
    return [(finding.subject, finding.severity) for finding in findings]


def test_two_releases_that_two_files_get(env: EnvironmentWriter) -> None:
    env.add("nvidia-nccl-cu13", {"nvidia/nccl/lib/libnccl.so.2": nccl("2.28.9")}, version="2.28.9")
    env.add("other", {"other/lib/libnccl.so.2": nccl("2.27.3")})
    user(env, "a", "nvidia/nccl/lib")
    user(env, "b", "other/lib")
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.severity) == ("NCCL: libnccl.so.2", Severity.ERROR)
    assert finding.evidence["copies"] == (
        "nvidia/nccl/lib/libnccl.so.2 (2.28.9): 1 file needs it; other/lib/libnccl.so.2 (2.27.3): 1 file needs it"
    )


def test_other_release_that_no_file_gets_is_a_risk(env: EnvironmentWriter) -> None:
    env.add("nvidia-nccl-cu13", {"nvidia/nccl/lib/libnccl.so.2": nccl("2.28.9")}, version="2.28.9")
    env.add("other", {"other/lib/libnccl.so.2": nccl("2.27.3")})
    user(env, "a", "nvidia/nccl/lib")
    assert summary(judge(env.prefix, RULE)) == [("NCCL: libnccl.so.2", Severity.WARNING)]


@pytest.mark.parametrize("path", ["other/lib/libnccl.so.2", "nvidia/nccl/lib/libnccl.so.2.28.9"])
def test_second_copy_of_the_same_release_and_second_name_in_one_folder(env: EnvironmentWriter, path: str) -> None:
    env.add("nvidia-nccl-cu13", {"nvidia/nccl/lib/libnccl.so.2": nccl("2.28.9")}, version="2.28.9")
    env.add("other", {path: nccl("2.28.9")})
    user(env, "a", "nvidia/nccl/lib")
    user(env, "b", "other/lib")
    assert judge(env.prefix, RULE) == []


def test_stub_and_library_of_another_machine_are_no_copies(env: EnvironmentWriter) -> None:
    env.add("nvidia-nccl-cu13", {"nvidia/nccl/lib/libnccl.so.2": nccl("2.28.9")}, version="2.28.9")
    arm = write_elf(soname="libnccl.so.2", machine=183)
    env.add("sdk", {"sdk/stubs/libnccl.so.2": nccl("2.1.0"), "sdk/arm/libnccl.so.2": arm})
    user(env, "a", "nvidia/nccl/lib")
    assert judge(env.prefix, RULE) == []


def test_two_majors_are_not_copies_of_each_other(env: EnvironmentWriter) -> None:
    env.add("a", {"a/libcudart.so.12": write_elf(soname="libcudart.so.12")})
    env.add("b", {"b/libcudart.so.13": write_elf(soname="libcudart.so.13")})
    assert judge(env.prefix, RULE) == []


def test_private_copies_of_openmp_are_a_note(env: EnvironmentWriter) -> None:
    versions = [Export("GOMP_start", "GOMP_5.0")]
    env.add("a", {"a.libs/libgomp-6a29c32d.so.1.0.0": write_elf(soname="libgomp-6a29c32d.so.1.0.0", exports=versions)})
    env.add("b", {"b/libgomp.so.1": write_elf(soname="libgomp.so.1", exports=versions)})
    assert summary(judge(env.prefix, RULE)) == [("GNU OpenMP: libgomp.so.1", Severity.NOTE)]


def test_two_distributions_that_own_one_file(env: EnvironmentWriter) -> None:
    """pytorch#186591: nvidia-nccl-cu12 and -cu13 both write nvidia/nccl/lib/libnccl.so.2."""
    path = "nvidia/nccl/lib/libnccl.so.2"
    env.add("nvidia-nccl-cu12", {path: nccl("2.29.3")}, version="2.29.3")
    env.add("nvidia-nccl-cu13", {path: nccl("2.29.7")}, version="2.29.7")
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.severity) == (path, Severity.ERROR)
    assert "nvidia-nccl-cu12 2.29.3 and nvidia-nccl-cu13 2.29.7" in finding.message
    assert finding.evidence == {"release of the file": "2.29.7"}


@pytest.mark.parametrize(("stated", "count"), [("2.27.3", 1), ("2.28.9", 0)])
def test_file_of_another_release_than_its_distribution(env: EnvironmentWriter, stated: str, count: int) -> None:
    env.add("nvidia-nccl-cu13", {"nvidia/nccl/lib/libnccl.so.2": nccl(stated)}, version="2.28.9.post1")
    found = judge(env.prefix, RULE)
    assert len(found) == count
    assert all(finding.severity is Severity.WARNING and "2.27.3" in finding.message for finding in found)


@pytest.mark.parametrize(
    ("pin", "severities"),
    [
        ("nvidia-nccl-cu13==2.28.9", []),
        ("nvidia-nccl-cu13==2.28.9; platform_system == 'Linux'", []),
        ("nvidia-nccl-cu13==2.30.4", [Severity.ERROR]),
        ("nvidia-nccl-cu13==2.27.5", [Severity.WARNING]),
        ("nvidia-nccl-cu13>=2.30", []),
        ("nvidia-nccl-cu13==2.30.4; extra == 'x'", []),
        ("not a requirement ==", []),
    ],
)
def test_release_that_torch_pins(env: EnvironmentWriter, pin: str, severities: list[Severity]) -> None:
    env.add("nvidia-nccl-cu13", {"nvidia/nccl/lib/libnccl.so.2": nccl("2.28.9")}, version="2.28.9")
    files = {"torch/lib/libtorch_cuda.so": write_elf(needed=["libnccl.so.2"])}
    env.add("torch", files, version="2.11.0", headers=[f"Requires-Dist: {pin}"])
    found = judge(env.prefix, RULE)
    assert summary(found) == [("torch: libnccl.so.2", severity) for severity in severities]


def test_system_copy_that_an_image_gives_to_another_program(tmp_path: Path) -> None:
    """NGC's shape: torch's run path leads to the wheel, LD_LIBRARY_PATH to the image's own NCCL."""
    torch = write_elf(needed=["libnccl.so.2"], rpath="$ORIGIN/../../nvidia/nccl/lib")
    files = {
        "usr/lib/x86_64-linux-gnu/libnccl.so.2.15.5": nccl("2.15.5"),
        f"{SITE}/nvidia/nccl/lib/libnccl.so.2": nccl("2.28.9"),
        f"{SITE}/torch/lib/libtorch_cuda.so": torch,
    }
    write_root(tmp_path, files, {"usr/lib/x86_64-linux-gnu/libnccl.so.2": "libnccl.so.2.15.5"})
    assert summary(judge_root(tmp_path, RULE)) == [("NCCL: libnccl.so.2", Severity.ERROR)]


def test_copy_of_an_image_where_nobody_looks(tmp_path: Path) -> None:
    torch = write_elf(needed=["libnccl.so.2"], rpath="$ORIGIN/../../nvidia/nccl/lib")
    files = {
        "opt/conda/pkgs/nccl-2.15.5/lib/libnccl.so.2": nccl("2.15.5"),
        f"{SITE}/nvidia/nccl/lib/libnccl.so.2": nccl("2.28.9"),
        f"{SITE}/torch/lib/libtorch_cuda.so": torch,
    }
    write_root(tmp_path, files)
    assert summary(judge_root(tmp_path, RULE)) == [("NCCL: libnccl.so.2", Severity.WARNING)]


def test_second_torch_that_a_wheel_was_repaired_with(env: EnvironmentWriter) -> None:
    c10 = write_elf(soname="libc10.so")
    env.add(
        "torch", {"torch/lib/libc10.so": c10, "torch/lib/libtorch.so": write_elf(needed=["libc10.so"], rpath="$ORIGIN")}
    )
    copy = write_elf(soname="libc10-6a29c32d.so")
    user = write_elf(needed=["libc10-6a29c32d.so"], rpath="$ORIGIN/../ext.libs")
    env.add("ext", {"ext.libs/libc10-6a29c32d.so": copy, "ext/_c.so": user})
    assert summary(judge(env.prefix, RULE)) == [("torch: libc10.so", Severity.ERROR)]
