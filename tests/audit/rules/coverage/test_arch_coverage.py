"""arch-coverage: a container without the target's code fails in registering files, not in dispatching ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.audit.known.policy import Dispatching, Expectations, Gap
from tests.audit.support import judge, make_policy
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter
from tests.writers.fatbin import write_container, write_section

RULE = "arch-coverage"
REASON = "written for this test only"


def library(tmp_path: Path, *containers: bytes, section: str = ".nv_fatbin") -> Path:
    env = EnvironmentWriter(tmp_path / "e")
    env.add("ext", {"ext/_c.so": write_elf(sections=[(section, write_section(*containers))])})
    return env.prefix


BOTH = write_container("sm_90a", "sm_100a")


def test_every_container_covers_every_target(tmp_path: Path) -> None:
    by_base = write_container("sm_90", "sm_100")
    by_family = write_container("sm_90", "sm_100f", "compute_120")
    assert judge(library(tmp_path, BOTH, by_base, by_family), RULE) == []


@pytest.mark.parametrize(
    ("container", "target", "result"),
    [
        (write_container("sm_90a"), "b200", "none"),
        (write_container("sm_90a", "sm_103a"), "b200", "none"),
        (write_container("sm_90a", "sm_100f", "sm_120"), None, None),
        (write_container("sm_90", "compute_90"), "b200", "ptx-jit"),
        (write_container("sm_90a", "compute_90a"), "b200", "none"),
        (write_container("sm_80", "sm_86", "sm_100a"), "h100", "none"),
        (write_container(), "h100", "none"),
    ],
)
def test_one_container_without_a_target(
    tmp_path: Path, container: bytes, target: str | None, result: str | None
) -> None:
    findings = judge(library(tmp_path, BOTH, container), RULE)
    if target is None:
        assert findings == []
        return
    finding = findings[0]
    assert (finding.subject, finding.evidence["target"], finding.evidence["result"]) == ("ext/_c.so", target, result)
    assert finding.message.startswith("1 of 2 containers")
    assert finding.fatal


def test_relocatable_device_code_is_seen(tmp_path: Path) -> None:
    assert len(judge(library(tmp_path, write_container("sm_90a"), section="__nv_relfatbin"), RULE)) == 1


def test_dispatching_file_is_judged_as_a_whole(tmp_path: Path) -> None:
    policy = make_policy(Expectations(schema=1, dispatching=(Dispatching(files=("ext/*.so",), reason=REASON),)))
    prefix = library(tmp_path, write_container("sm_90a"), write_container("sm_100"))
    assert len(judge(prefix, RULE)) == 2
    assert judge(prefix, RULE, policy) == []


def test_dispatching_file_without_a_target_fails(tmp_path: Path) -> None:
    policy = make_policy(Expectations(schema=1, dispatching=(Dispatching(files=("ext/*",), reason=REASON),)))
    (finding,) = judge(library(tmp_path, write_container("sm_90a"), write_container("sm_80")), RULE, policy)
    assert finding.evidence["target"] == "b200"


def test_declared_gap_passes_only_with_the_declared_number(tmp_path: Path) -> None:
    prefix = library(tmp_path, BOTH, write_container("sm_90a"), write_container("sm_90a"))

    def gap(containers: int) -> Expectations:
        return Expectations(
            schema=1, gaps=(Gap(file="ext/_c.so", target="b200", result="none", containers=containers, reason=REASON),)
        )

    assert judge(prefix, RULE, make_policy(gap(2))) == []
    (finding,) = judge(prefix, RULE, make_policy(gap(1)))
    assert "1 were declared" in finding.message


def test_containers_in_large_data_sections_count(tmp_path: Path) -> None:
    """cuFFT keeps its kernels in .ldata among other data."""
    stub = write_container("sm_75")
    data = b"junk" * 5 + BOTH + b"\x50\xed\x55\xba\x01\x00\x10\x00" + b"\xff" * 8 + b"more"
    env = EnvironmentWriter(tmp_path / "e")
    env.add("ext", {"ext/_c.so": write_elf(sections=[(".nv_fatbin", stub), (".ldata", data)])})
    policy = make_policy(Expectations(schema=1, dispatching=(Dispatching(files=("ext/*",), reason=REASON),)))
    assert judge(env.prefix, RULE, policy) == []


def test_several_files_of_one_distribution_are_one_finding(tmp_path: Path) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    hopper = write_elf(sections=[(".nv_fatbin", write_section(write_container("sm_90a")))])
    env.add("ops", {f"ops/k{number}.so": hopper for number in range(40)})
    env.add("other", {"other.so": hopper})
    many, one = judge(env.prefix, RULE)
    assert (many.subject, many.message[:14], one.subject) == ("ops", "40 files of it", "other.so")
    assert many.evidence["files (containers)"].endswith("and 10 more")
