"""needs-library: what nobody provides; driver, base and what a requirement brings are told apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.audit.known.policy import Absent, Expectations
from orbit.audit.rules.loading import needs_library
from orbit.core.findings import Severity
from tests.audit.rooted import SITE, judge_root, write_root
from tests.audit.support import judge, make_policy, read_as_wheels
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return EnvironmentWriter(tmp_path / "e")


def test_library_that_nobody_has(env: EnvironmentWriter) -> None:
    env.add("user", {"user/_c.so": write_elf(needed=["libnowhere.so.3", "libc.so.6"])})
    (finding,) = judge(env.prefix, "needs-library")
    assert (finding.subject, finding.evidence["files"]) == ("libnowhere.so.3", "user/_c.so")
    assert finding.fatal


def test_driver_base_and_preloaded_libraries_are_not_missing(env: EnvironmentWriter) -> None:
    user = write_elf(needed=["libcuda.so.1", "libstdc++.so.6", "libp.so.1"])
    env.add("user", {"user/_c.so": user})
    env.add("vendor", {"vendor/lib/libp.so.1": write_elf(soname="libp.so.1")})
    assert judge(env.prefix, "needs-library") == []


def test_stub_for_another_machine_provides_nothing(env: EnvironmentWriter) -> None:
    env.add("user", {"user/_c.so": write_elf(needed=["libp.so.1"]), "user/_d.so": write_elf()})
    env.add("vendor", {"vendor/arm/libp.so.1": write_elf(soname="libp.so.1", machine=183)})
    assert len(judge(env.prefix, "needs-library")) == 1


def test_declared_optional_library(env: EnvironmentWriter) -> None:
    env.add("user", {"user/plugin.so": write_elf(needed=["libmpi.so.40"])})
    absent = Absent(files=("user/plug*.so",), sonames=("libmpi.so.*",), reason="an optional plug-in for MPI")
    assert judge(env.prefix, "needs-library", make_policy(Expectations(schema=1, absent=(absent,)))) == []


@pytest.mark.parametrize(("present", "subjects"), [((), ["libz.so.1"]), (("usr/lib/libz.so.1",), [])])
def test_an_image_must_have_its_base_libraries(tmp_path: Path, present: tuple[str, ...], subjects: list[str]) -> None:
    files = {path: write_elf(soname="libz.so.1") for path in present}
    write_root(tmp_path, files | {f"{SITE}/user/_c.so": write_elf(needed=["libz.so.1"])})
    assert [finding.subject for finding in judge_root(tmp_path, "needs-library")] == subjects


@pytest.mark.parametrize(
    ("soname", "requires", "severities"),
    [
        ("libc10.so", ["torch"], []),
        ("libc10.so", [], [Severity.WARNING]),
        ("libnccl.so.2", [], [Severity.WARNING]),
        ("libprivate.so.1", [], [Severity.ERROR]),
        ("libprivate.so.1", ["numpy"], []),
        ("libstdc++.so.6", [], []),
    ],
)
def test_wheel_looked_at_alone(
    env: EnvironmentWriter, soname: str, requires: list[str], severities: list[Severity]
) -> None:
    headers = [f"Requires-Dist: {name}" for name in requires]
    env.add("kernels", {"kernels/_c.so": write_elf(needed=[soname])}, headers=headers)
    policy = make_policy()
    found = list(needs_library.check(read_as_wheels(env.prefix), policy))
    assert [finding.severity for finding in found] == severities
    assert all(finding.subject == soname for finding in found)
