"""arch-feature: plain code where a device's own instructions are needed: declared, in the name, or forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.audit.known.policy import Dispatching, Expectations, Feature
from orbit.core.findings import Severity
from tests.audit.support import judge, make_policy
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter
from tests.writers.fatbin import write_container, write_section

RULE = "arch-feature"
REASON = "written for this test only"
OWN, PLAIN = ("sm_90a", "sm_100a"), ("sm_90", "sm_100")


def library(tmp_path: Path, *archs: tuple[str, ...], file: str = "ext/_c.so") -> Path:
    env = EnvironmentWriter(tmp_path / "e")
    containers = [write_container(*names) for names in archs]
    env.add("ext", {file: write_elf(sections=[(".nv_fatbin", write_section(*containers))])})
    return env.prefix


def feature(target: str = "h100", containers: int = 0) -> Expectations:
    entry = Feature(files=("ext/*.so",), target=target, containers=containers, reason=REASON)
    return Expectations(schema=1, features=(entry,))


def test_declared_files_have_the_suffix_in_every_container(tmp_path: Path) -> None:
    policy = make_policy(feature())
    assert judge(library(tmp_path / "a", OWN, ("sm_90", "sm_90a", "sm_100")), RULE, policy) == []
    (finding,) = judge(library(tmp_path / "b", OWN, PLAIN), RULE, policy)
    assert (finding.subject, finding.fatal, finding.evidence["target"]) == ("ext/_c.so", True, "h100")
    assert finding.message.startswith("1 containers have plain code")


def test_containers_without_code_for_the_target_are_coverages_matter(tmp_path: Path) -> None:
    assert judge(library(tmp_path, OWN, ("sm_100a",)), RULE, make_policy(feature())) == []


def test_declared_number_of_containers(tmp_path: Path) -> None:
    prefix = library(tmp_path, OWN, OWN, PLAIN, PLAIN, PLAIN)
    assert judge(prefix, RULE, make_policy(feature(containers=2))) == []
    (finding,) = judge(prefix, RULE, make_policy(feature(containers=3)))
    assert finding.evidence["with sm_90a"] == "2"


def test_declared_file_with_nothing_for_the_target(tmp_path: Path) -> None:
    (finding,) = judge(library(tmp_path, ("sm_100a",)), RULE, make_policy(feature()))
    assert "0 containers have sm_90a, 1 are expected" in finding.message


def test_a_runs_on_one_capability_and_f_on_its_family(tmp_path: Path) -> None:
    policy = make_policy(feature("b200"))
    assert judge(library(tmp_path / "f", ("sm_90", "sm_100f")), RULE, policy) == []
    (finding,) = judge(library(tmp_path / "a", ("sm_90", "sm_103a", "sm_100")), RULE, policy)
    assert "plain code for b200" in finding.message


@pytest.mark.parametrize(
    ("file", "archs", "fatal"),
    [
        ("ext/_C_cutlass_90a.abi3.so", ("sm_90",), True),
        ("ext/_C_cutlass_90a.abi3.so", ("sm_90a",), False),
        ("ext/fmha_sm_100a_x86_64.so", ("sm_100",), True),
        ("ext/fmha_sm100a.so", ("sm_100a",), False),
        ("ext/common_sm90.so", ("sm_90",), False),
        ("ext/lib1290abc.so", ("sm_90",), False),
    ],
)
def test_architectures_in_names(tmp_path: Path, file: str, archs: tuple[str, ...], fatal: bool) -> None:
    assert [finding.fatal for finding in judge(library(tmp_path, archs, file=file), RULE)] == [True] * fatal


def test_known_families_need_no_declaration(tmp_path: Path) -> None:
    (finding,) = judge(library(tmp_path / "a", ("sm_80", "sm_90"), file="flash_attn_3/_C.abi3.so"), RULE)
    assert "FlashAttention-3" in finding.evidence["why"]
    assert judge(library(tmp_path / "b", ("sm_80",), ("sm_90a",), file="flash_attn_3/_C.abi3.so"), RULE) == []
    assert judge(library(tmp_path / "c", ("sm_80",), file="flash_attn_3/_C.abi3.so"), RULE) == []


def test_translation_units_that_were_forgotten(tmp_path: Path) -> None:
    prefix = library(tmp_path / "a", OWN, OWN, OWN, OWN, PLAIN)
    findings = judge(prefix, RULE)
    assert [(f.severity, f.evidence["target"]) for f in findings] == [
        (Severity.WARNING, "h100"),
        (Severity.WARNING, "b200"),
    ]
    dispatching = Expectations(schema=1, dispatching=(Dispatching(files=("ext/*",), reason=REASON),))
    assert judge(prefix, RULE, make_policy(dispatching)) == []


@pytest.mark.parametrize("archs", [(PLAIN,) * 50 + (OWN,) * 4, (OWN, PLAIN), (PLAIN,) * 9])
def test_a_minority_with_the_suffix_is_upstreams_choice(tmp_path: Path, archs: tuple[tuple[str, ...], ...]) -> None:
    """torch has four such containers of 444, transformer-engine 19 of 61."""
    assert judge(library(tmp_path, *archs), RULE) == []
