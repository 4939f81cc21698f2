"""build-manifest: what was requested against what is there, by Orbit's record and by lists of other builds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.audit.rules.coverage.build_manifest import requested_archs
from orbit.core.findings import Finding, Severity
from tests.audit.support import judge
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter
from tests.writers.fatbin import write_container, write_section

RULE = "build-manifest"
BOTH = ("sm_90a", "sm_100a")


def library(*archs: tuple[str, ...]) -> bytes:
    return write_elf(sections=[(".nv_fatbin", write_section(*(write_container(*names) for names in archs)))])


def found(tmp_path: Path, data: bytes | None, coverage: dict[str, int]) -> list[Finding]:
    env = EnvironmentWriter(tmp_path / "e")
    env.add("ext", {"ext_cuda.so": data} if data is not None else {"ext.py": b""})
    binary = {"file": "ext_cuda.so", "coverage": coverage, "images": {}, "glibc": "2.17"}
    kernel = {
        "dist": "ext",
        "version": "1.0",
        "requested": ["compute_90a:sm_90a", "compute_100a:sm_100a"],
        "found": [binary],
    }
    write_record(
        env, {"profile": "probe", "kernels": [kernel], "distributions": [{"name": "ext", "origin": "wheelhouse"}]}
    )
    return judge(env.prefix, RULE)


def write_record(env: EnvironmentWriter, record: object) -> None:
    path = env.prefix / "share/orbit/environment.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(record))


def test_same_as_the_build_left_it(tmp_path: Path) -> None:
    assert found(tmp_path, library(BOTH, BOTH), {"sm_100a+sm_90a": 2}) == []


@pytest.mark.parametrize(
    ("data", "coverage", "words"),
    [
        (library(BOTH, ("sm_90a",)), {"sm_100a+sm_90a": 2}, "1 of 2 containers lack"),
        (library(("sm_90", "sm_100a")), {"sm_100a+sm_90": 1}, "1 of 1 containers lack"),
        (library(BOTH), {"sm_100a+sm_90a": 2}, "not those that its build left"),
        (library((*BOTH, "sm_80")), {"sm_100a+sm_90a": 1}, "not those that its build left"),
        (write_elf(), {"sm_100a+sm_90a": 1}, "not those that its build left"),
        (None, {"sm_100a+sm_90a": 1}, "no such library"),
    ],
)
def test_differences(tmp_path: Path, data: bytes | None, coverage: dict[str, int], words: str) -> None:
    (finding,) = found(tmp_path, data, coverage)
    assert (finding.subject, finding.fatal, words in finding.message) == ("ext_cuda.so", True, True)
    assert finding.evidence["requested"] == "sm_100a sm_90a"


def test_builds_without_a_manifest_are_noted(tmp_path: Path) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    write_record(env, {"distributions": [{"name": "ext", "origin": "wheelhouse"}, {"name": "x", "origin": "index"}]})
    (finding,) = judge(env.prefix, RULE)
    assert (finding.severity, finding.evidence["distributions"]) == (Severity.NOTE, "ext")


@pytest.mark.parametrize("record", [{"kernels": 1}, {"kernels": [{}]}, [], {}])
def test_records_of_other_shapes_say_nothing(tmp_path: Path, record: object) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    write_record(env, record)
    assert judge(env.prefix, RULE) == []


@pytest.mark.parametrize(
    ("value", "archs", "severity"),
    [
        ("8.0 9.0a 10.0", ("sm_80", "sm_90a", "sm_100"), None),
        ("8.0;9.0a;10.0;10.0a", ("sm_80", "sm_90a", "sm_100a"), Severity.ERROR),
        ("7.0 8.0+PTX", ("sm_80",), Severity.NOTE),
        ("Hopper", ("sm_80",), None),
        ("9.0", (), None),
    ],
)
def test_list_beside_the_libraries(
    tmp_path: Path, value: str, archs: tuple[str, ...], severity: Severity | None
) -> None:
    env = EnvironmentWriter(tmp_path / "e")
    listed = json.dumps({"version": {"torch": "2.11"}, "env": {"TORCH_CUDA_ARCH_LIST": value, "NVCC_FLAGS": None}})
    files = {"xformers/cpp_lib.json": listed.encode()}
    env.add("xformers", files | ({"xformers/_C.so": library(archs[:2], archs[2:] or archs)} if archs else {}))
    assert [finding.severity for finding in judge(env.prefix, RULE)] == ([severity] if severity else [])


def test_reading_a_list() -> None:
    assert requested_archs("8.0;9.0a+PTX, 12.0f x 9.0a") == ["sm_80", "sm_90a", "sm_120f"]
