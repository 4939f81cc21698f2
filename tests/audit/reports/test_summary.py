"""The numbers of a report: what was looked at, device code by architecture, versions, the loader table."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.audit.reports.report import ArchitectureUse, LoaderRow, TargetCoverage
from orbit.audit.reports.summary import use_of
from orbit.audit.run import audit_environment
from orbit.profile.model import load_profile
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter, write_sound_environment
from tests.writers.fatbin import Entry, write_container, write_section


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    env = write_sound_environment(tmp_path / "e")
    section = write_section(
        write_container(Entry("sm_90a", b"x" * 16), "sm_100a"),
        write_container("sm_90a", "compute_90"),
        write_container("sm_90a"),
    )
    env.add(
        "ext",
        {"ext/_c.so": write_elf(needed=["libcuda.so.1", "libc.so.6"], sections=[(".nv_fatbin", section)])},
        version="2.1",
    )
    return env


def test_numbers_of_an_environment(env: EnvironmentWriter) -> None:
    made = audit_environment(env.prefix, load_profile("probe"))
    (coverage,) = made.coverage
    assert (coverage.file, coverage.mode, coverage.containers) == ("ext/_c.so", "registering", 3)
    assert coverage.images == {"compute_90": 1, "sm_100a": 1, "sm_90a": 3}
    assert coverage.payload_bytes == 16 * 5
    assert coverage.targets == (
        TargetCoverage(target="h100", sass=3, ptx_jit=0, none=0),
        TargetCoverage(target="b200", sass=1, ptx_jit=1, none=1),
    )
    files = [path for path in env.prefix.rglob("*") if path.is_file()]
    assert made.facts["files"] == len(files)
    assert made.facts["bytes"] == sum(path.stat().st_size for path in files)
    assert made.facts["verified_files"] == len(files) - 3  # all but the RECORD files
    assert (made.facts["shared_objects"], made.facts["containers"], made.facts["images"]) == (2, 3, 5)
    assert made.driver_libraries == {"libcuda.so.1": 1}
    assert made.counts()["fatal"] == 2  # PTX alone and nothing at all are two findings
    assert {item.rule for item in made.findings if item.fatal} == {"arch-coverage"}


def test_device_code_by_architecture_says_who_can_use_it(env: EnvironmentWriter) -> None:
    old = write_section(write_container("sm_75", "sm_75"), write_container("compute_120a"), write_container("sm_90a"))
    env.add("old", {"old/_c.so": write_elf(sections=[(".nv_fatbin", old)])})
    made = audit_environment(env.prefix, load_profile("probe"))
    assert made.architectures == (
        ArchitectureUse(arch="sm_90a", images=4, payload_bytes=64, sass=("h100",), jit=()),
        ArchitectureUse(arch="sm_75", images=2, payload_bytes=32, sass=(), jit=()),
        ArchitectureUse(arch="compute_120a", images=1, payload_bytes=16, sass=(), jit=()),
        ArchitectureUse(arch="compute_90", images=1, payload_bytes=16, sass=(), jit=("h100", "b200")),
        ArchitectureUse(arch="sm_100a", images=1, payload_bytes=16, sass=("b200",), jit=()),
    )
    assert sum(item.payload_bytes for item in made.architectures) == sum(c.payload_bytes for c in made.coverage)


@pytest.mark.parametrize(
    ("arch", "use"),
    [("sm_90", "sass"), ("sm_100", "none"), ("compute_75", "ptx-jit"), ("lto_75", "ptx-jit"), ("lto_120", "none"),
     ("compute_100", "none"), ("?", "none"), ("lto_", "none")],
)  # fmt: skip
def test_use_of_an_architecture_on_hopper(arch: str, use: str) -> None:
    assert use_of(arch, "9.0") == use


def test_versions_of_what_is_installed(env: EnvironmentWriter) -> None:
    env.add("good", {}, version="0.9")
    made = audit_environment(env.prefix, load_profile("probe"))
    assert made.distributions == {"ext": "2.1", "good": "0.9, 1.0", "native": "1.0"}


def test_loader_table_has_every_need(env: EnvironmentWriter) -> None:
    env.add("lib", {"lib/libx.so": write_elf(soname="libx.so"), "lib/user.so": write_elf(needed=["libx.so", "no.so"])})
    made = audit_environment(env.prefix, load_profile("probe"))
    assert set(made.loader) == {
        LoaderRow(file="ext/_c.so", soname="libc.so.6", how="base", path=""),
        LoaderRow(file="ext/_c.so", soname="libcuda.so.1", how="driver", path=""),
        LoaderRow(file="lib/user.so", soname="libx.so", how="preloaded", path="lib/libx.so"),
        LoaderRow(file="lib/user.so", soname="no.so", how="missing", path=""),
        LoaderRow(file="native/_c.cpython-312-x86_64-linux-gnu.so", soname="libc.so.6", how="base", path=""),
    }


def test_libraries_have_printable_names_and_the_release_they_state(env: EnvironmentWriter) -> None:
    nccl = write_elf(soname="libnccl.so.2", sections=[(".rodata", b"\0NCCL version 2.28.9+cuda13.0\0")])
    env.add("nccl", {"nccl/libnccl.so.2": nccl})
    (found,) = audit_environment(env.prefix, load_profile("probe")).libraries
    assert (found.family, found.file, found.soname, found.release) == (
        "NCCL", "nccl/libnccl.so.2", "libnccl.so.2", "2.28.9",
    )  # fmt: skip
