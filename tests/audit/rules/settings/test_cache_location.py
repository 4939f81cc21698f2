"""cache-location: where caches go by variables, by the entry point and by default."""

from __future__ import annotations

import pytest

from orbit.audit.rules import RULES
from orbit.core.findings import Finding, Severity
from orbit.env.activate import SOCKETS_BYTES
from tests.audit.rules.settings.rootfs import PREFIX, Rootfs, judge_environment, judge_image

RULE = RULES["cache-location"]

ENTRY = f"{PREFIX}/bin/start-entrypoint"
ROOT_HOME = "/root"
GOOD = "/var/local/state/b9d49c4575ea"
DRIVER = {"CUDA_CACHE_PATH": f"{GOOD}/driver"}


@pytest.fixture
def image(rootfs: Rootfs) -> Rootfs:
    rootfs.env.add("triton", {"triton/__init__.py": b""})
    rootfs.env.add("sgl-deep-gemm", {"deep_gemm/__init__.py": b""})
    return rootfs


def placed(**variables: str) -> dict[str, str | None]:
    """Both caches in a good place, but for the given variables."""
    good = {"TRITON_CACHE_DIR": f"{GOOD}/triton", "DG_JIT_CACHE_DIR": f"{GOOD}/deep-gemm"}
    return {**DRIVER, **good, **variables}


def only(findings: list[Finding]) -> Finding:
    assert len(findings) == 1, [finding.message for finding in findings]
    return findings[0]


def test_good_places_are_clean(image: Rootfs) -> None:
    assert judge_image(RULE, image, placed()) == []


def test_nothing_set_is_one_finding(image: Rootfs) -> None:
    finding = only(judge_image(RULE, image))
    assert finding.subject == "TRITON_CACHE_DIR, DG_JIT_CACHE_DIR, CUDA_CACHE_PATH"
    assert finding.evidence["DeepGEMM"] == "~/.deep_gemm"
    assert finding.severity is Severity.WARNING


def test_packages_that_are_not_installed_have_no_cache(rootfs: Rootfs) -> None:
    assert judge_image(RULE, rootfs, dict(DRIVER)) == []
    assert only(judge_image(RULE, rootfs)).subject == "CUDA_CACHE_PATH"
    (rootfs.env.site / "ext/_c.so").unlink()
    assert judge_image(RULE, rootfs) == []


@pytest.mark.parametrize(
    ("value", "words", "severity"),
    [
        (f"{ROOT_HOME}/.triton", "into a home folder", Severity.WARNING),
        ("/home/ann/cache", "into a home folder", Severity.WARNING),
        ("/lustre/project/triton-3.6", "network file system", Severity.WARNING),
        ("/mnt/shared/triton", "network file system", Severity.WARNING),
        ("/opt/orbit/cache/triton", "may not write", Severity.ERROR),
        ("/tmp/triton", "one fixed temporary folder", Severity.WARNING),
        ("~/.triton/cache", "nobody expands", Severity.ERROR),
        ("$HOME/.triton/cache", "nobody expands", Severity.ERROR),
        ("cache/triton", "is relative", Severity.WARNING),
    ],
)
def test_a_wrong_place(image: Rootfs, value: str, words: str, severity: Severity) -> None:
    finding = only(judge_image(RULE, image, placed(TRITON_CACHE_DIR=value)))
    assert words in finding.message
    assert (finding.subject, finding.severity, finding.evidence["Triton"]) == ("TRITON_CACHE_DIR", severity, value)


@pytest.mark.parametrize(
    "value",
    ["/var/tmp2/triton", "/networkless/triton", "/mntx/triton", "/data/triton", "/homes-of-caches/t", "/nfsx/t"],
)
def test_places_that_only_look_wrong(image: Rootfs, value: str) -> None:
    assert judge_image(RULE, image, placed(TRITON_CACHE_DIR=value)) == []


def test_a_writable_folder_below_the_prefix(image: Rootfs) -> None:
    image.folder("opt/orbit/cache", 0o1777)
    assert judge_image(RULE, image, placed(TRITON_CACHE_DIR="/opt/orbit/cache/triton")) == []


def test_only_caches_that_do_not_tell_versions_apart_need_them_in_the_path(image: Rootfs) -> None:
    assert judge_image(RULE, image, placed(TRITON_CACHE_DIR="/data/triton")) == []
    finding = only(judge_image(RULE, image, placed(DG_JIT_CACHE_DIR="/data/deep-gemm")))
    assert "without version or architecture" in finding.message
    for path in ("/data/cu130/deep-gemm", "/data/deep-gemm-0.1.4", "/data/sm_90/deep-gemm"):
        assert judge_image(RULE, image, placed(DG_JIT_CACHE_DIR=path)) == []


def test_a_home_folder_of_another_name(image: Rootfs) -> None:
    values = placed(TRITON_CACHE_DIR="/workspace/.triton")
    assert judge_image(RULE, image, values) == []
    assert "home folder" in only(judge_image(RULE, image, values | {"HOME": "/workspace"})).message


def test_a_home_in_a_temporary_folder_is_no_network_home(image: Rootfs) -> None:
    """What is wrong with it is another thing: two users of one node meet there."""
    values = placed(TRITON_CACHE_DIR="/tmp/cu130-1.0/triton", HOME="/tmp")
    assert "fixed temporary folder" in only(judge_image(RULE, image, values)).message


def test_a_parent_variable_places_it(image: Rootfs) -> None:
    values = placed() | {"TRITON_CACHE_DIR": None, "TRITON_HOME": "/data/here"}
    assert judge_image(RULE, image, values) == []
    finding = only(judge_image(RULE, image, values | {"TRITON_HOME": "/gpfs/x"}))
    assert (finding.subject, finding.evidence["Triton"]) == ("TRITON_HOME", "/gpfs/x/.triton/cache")


def test_what_the_entry_point_sets_counts(image: Rootfs) -> None:
    script = (
        b'#!/bin/sh\nexport TRITON_CACHE_DIR="$state"/triton DG_JIT_CACHE_DIR="$state/deep-gemm"\n. "$share/more.sh"\n'
    )
    image.write(ENTRY, script, 0o755)
    image.write("opt/orbit/share/orbit/more.sh", b'export CUDA_CACHE_PATH="$state"/driver\n')
    assert judge_image(RULE, image) == []
    image.write(ENTRY, b"#!/bin/sh\n# export TRITON_CACHE_DIR=/x\nexport DG_JIT_CACHE_DIR=/nfs/a-1.0\n", 0o755)
    findings = {finding.subject: finding.message for finding in judge_image(RULE, image)}
    assert set(findings) == {"TRITON_CACHE_DIR, CUDA_CACHE_PATH", "DG_JIT_CACHE_DIR"}
    assert "network" in findings["DG_JIT_CACHE_DIR"]


def test_an_entry_point_whose_text_is_not_known(image: Rootfs) -> None:
    image.write("usr/bin/serve", b"#!/bin/sh\n" + b": nothing\n" * 100, 0o755)
    finding = only(judge_image(RULE, image, entrypoint=("/usr/bin/serve",)))
    assert finding.severity is Severity.NOTE
    assert "was not read" in finding.message
    image.write("usr/bin/serve", b"#!/bin/sh\n", 0o755)
    assert only(judge_image(RULE, image, entrypoint=("/usr/bin/serve",))).severity is Severity.WARNING
    assert only(judge_image(RULE, image, entrypoint=("/bin/sh",))).severity is Severity.WARNING


def test_folders_of_sockets_are_short(rootfs: Rootfs) -> None:
    long = "/var/" + "x" * 60
    finding = only(judge_image(RULE, rootfs, {**DRIVER, "RAY_TMPDIR": long}))
    assert (finding.subject, "65 bytes" in finding.message) == ("RAY_TMPDIR", True)
    assert judge_image(RULE, rootfs, {**DRIVER, "RAY_TMPDIR": long[:SOCKETS_BYTES]}) == []
    assert len(judge_image(RULE, rootfs, {**DRIVER, "RAY_TMPDIR": long[: SOCKETS_BYTES + 1]})) == 1


def test_the_activation_contract_is_clean(image: Rootfs) -> None:
    assert judge_environment(RULE, image.env) == []
    finding = only(judge_environment(RULE, image.env, TRITON_CACHE_DIR="/opt/orbit/cache"))
    assert "may not write" in finding.message
