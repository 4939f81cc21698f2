"""run-path: where a run path leads, and how much is looked for there."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.findings import Finding, Severity
from tests.audit.rooted import SITE, judge_root, write_root
from tests.audit.support import judge
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter
from tests.writers.ld_cache import write_cache

RULE = "run-path"


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return EnvironmentWriter(tmp_path / "e")


def judged(env: EnvironmentWriter, *, needed: list[str], **paths: str) -> list[Finding]:
    env.add("near", {"user/libp.so.1": write_elf(soname="libp.so.1")})
    env.add("user", {"user/_c.so": write_elf(needed=needed, **paths)})  # type: ignore[arg-type]
    return judge(env.prefix, RULE)


@pytest.mark.parametrize("tag", ["rpath", "runpath"])
@pytest.mark.parametrize(
    ("path", "severity", "kind"),
    [
        ("/__w/_temp/conda_environment_1/lib", Severity.WARNING, "the machine that built it"),
        ("/build/lib:$ORIGIN", Severity.WARNING, "the machine that built it"),
        ("/builds/ci/torch/lib:$ORIGIN", Severity.WARNING, "the machine that built it"),
        ("/usr/local/cuda/lib64:$ORIGIN", Severity.WARNING, "the CUDA of the host"),
        ("/tmp/pip-build-env-x1/lib:$ORIGIN", Severity.ERROR, "every user can write to"),
        ("/dev/shm:$ORIGIN", Severity.ERROR, "every user can write to"),
        ("$ORIGIN:/tmp/x", Severity.NOTE, "every user can write to"),
        ("$ORIGIN:/build/lib", Severity.NOTE, "the machine that built it"),
        (":$ORIGIN", Severity.WARNING, "the working directory"),
        ("$ORIGIN:", Severity.NOTE, "the working directory"),
        ("lib:$ORIGIN", Severity.WARNING, "relative to the working directory"),
        ("$ORIGIN/../../../../../..", Severity.WARNING, "above the environment"),
        ("$ORIGINAL/lib", Severity.WARNING, "relative to the working directory"),
    ],
)  # fmt: skip
def test_element_that_leads_out(env: EnvironmentWriter, tag: str, path: str, severity: Severity, kind: str) -> None:
    (finding,) = judged(env, needed=["libp.so.1", "libc.so.6"], **{tag: path})
    assert finding.severity is severity
    assert kind in finding.message
    assert finding.message.startswith(f"{tag.upper()} of 1 file ")
    assert finding.evidence["files"] == "user/_c.so"


@pytest.mark.parametrize(
    "path",
    [
        "$ORIGIN",
        "${ORIGIN}/../../../..",
        "$ORIGIN/../none",
        "/opt/orbit/lib",
        "/usr/lib/x86_64-linux-gnu",
        "/lib64",
        "/usr/local/lib",
    ],
)
def test_sound_elements(env: EnvironmentWriter, path: str) -> None:
    assert judged(env, needed=["libp.so.1"], runpath=path) == []


def test_place_of_the_environment_itself_is_inside(env: EnvironmentWriter) -> None:
    """Even where it lies below /tmp, as an environment under test does."""
    assert judged(env, needed=["libp.so.1"], runpath=f"{env.prefix}/lib") == []


def test_rpath_that_is_out_of_force_is_not_judged(env: EnvironmentWriter) -> None:
    assert judged(env, needed=["libp.so.1"], rpath="/tmp/x", runpath="$ORIGIN") == []


def test_file_that_needs_nothing_but_glibc(env: EnvironmentWriter) -> None:
    (finding,) = judged(env, needed=["libc.so.6", "libm.so.6"], runpath="/tmp/x")
    assert finding.severity is Severity.NOTE


def test_files_of_one_distribution_are_one_finding(env: EnvironmentWriter) -> None:
    data = write_elf(needed=["libp.so.1"], runpath="/build/lib")
    env.add("user", {f"user/_{i}.so": data for i in range(7)})
    env.add("other", {"other/_c.so": data})
    assert [finding.subject for finding in judge(env.prefix, RULE)] == ["other: /build/lib", "user: /build/lib"]


def image(root: Path, path: str, **variables: str) -> list[tuple[str, Severity]]:
    user = write_elf(needed=["libp.so.1"], runpath=path)
    write_root(root, {f"{SITE}/user/_c.so": user, "opt/x/lib/libp.so.1": write_elf(soname="libp.so.1"), "tmp/x": b""})
    return [(finding.subject, finding.severity) for finding in judge_root(root, RULE, **variables)]


@pytest.mark.parametrize(
    ("path", "severities"),
    [
        ("/opt/x/lib", []),
        ("/opt/y/lib", [Severity.WARNING]),
        ("/opt/x/lib:/opt/y/lib", [Severity.NOTE]),
        ("/tmp", [Severity.ERROR]),
        ("/usr/lib/none", []),
        ("$ORIGIN/../../../../../../../x", []),
    ],
)
def test_absolute_element_in_an_image(tmp_path: Path, path: str, severities: list[Severity]) -> None:
    assert [severity for _subject, severity in image(tmp_path, path)] == severities


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("/usr/local/nvidia/lib:/usr/local/nvidia/lib64", []),
        ("/opt/x/lib:", [("LD_LIBRARY_PATH: (empty)", Severity.WARNING)]),
        ("/opt/x/lib::/opt/x", [("LD_LIBRARY_PATH: (empty)", Severity.WARNING)]),
        ("lib", [("LD_LIBRARY_PATH: lib", Severity.WARNING)]),
        ("/tmp/x", [("LD_LIBRARY_PATH: /tmp/x", Severity.ERROR)]),
        ("", []),
    ],
)
def test_variable_of_an_image(tmp_path: Path, value: str, expected: list[tuple[str, Severity]]) -> None:
    assert image(tmp_path, "$ORIGIN", LD_LIBRARY_PATH=value) == expected


@pytest.mark.parametrize(("cached", "count"), [([], 1), ([("libp.so.1", "/opt/x/lib/libp.so.1", "")], 0)])
def test_cache_that_was_made_too_early(tmp_path: Path, cached: list[tuple[str, str, str]], count: int) -> None:
    user = {f"{SITE}/user/_c.so": write_elf(needed=["libp.so.1"])}
    files = {"opt/x/lib/libp.so.1": write_elf(soname="libp.so.1"), "etc/ld.so.conf": b"/opt/x/lib\n"}
    write_root(tmp_path, user | files | {"etc/ld.so.cache": write_cache(cached)})
    found = judge_root(tmp_path, RULE)
    assert [finding.evidence for finding in found] == [{"libraries": "opt/x/lib/libp.so.1"}] * count


def test_cache_that_lacks_what_no_configuration_names(tmp_path: Path) -> None:
    user = {f"{SITE}/user/_c.so": write_elf(needed=["libp.so.1"])}
    files = {f"{SITE}/vendor/libp.so.1": write_elf(soname="libp.so.1"), "etc/ld.so.cache": write_cache([])}
    write_root(tmp_path, user | files)
    assert judge_root(tmp_path, RULE) == []


def test_cache_that_cannot_be_read(tmp_path: Path) -> None:
    write_root(tmp_path, {"etc/ld.so.cache": write_cache([])})
    assert judge_root(tmp_path, RULE) == []
    write_root(tmp_path, {"etc/ld.so.cache": b"\0" * 64})
    (finding,) = judge_root(tmp_path, RULE)
    assert (finding.subject, finding.severity) == ("etc/ld.so.cache", Severity.ERROR)
