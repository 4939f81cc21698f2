"""All facts of a made-up machine, and of this one; what cannot be had is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.console import Progress, Silent
from orbit.core.findings import Finding, Severity
from orbit.doctor.look import gather as module
from orbit.doctor.look.gather import gather
from orbit.doctor.run import diagnose
from orbit.errors import InputError, MissingError
from tests.doctor.look.test_prefix import environment


class Deeper:
    """Stands for the audit."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails

    def findings(self, prefix: Path, progress: Progress) -> tuple[Finding, ...]:
        progress.step("reading")
        if self.fails:
            raise MissingError(f"{prefix}: no reader here")
        return (Finding(rule="run-path", severity=Severity.ERROR, subject="x.so", message="/build", fix="patch it"),)


def test_this_machine_in_a_moment() -> None:
    facts = gather({"HOME": "/", "PATH": "/bin"}, prefix=None, own="/nowhere", progress=Silent())
    assert {"mounts", "processes", "ports"} <= {look.what for look in facts.looked}
    skipped = {each.what: each.reason for each in facts.skipped}
    assert "not an installed environment" in skipped["environment"]
    assert "--deep" in skipped["files of the environment"]
    assert len(facts.checks) >= 10
    assert diagnose(facts).skipped == facts.skipped


def test_only_known_variables_are_kept(tmp_path: Path) -> None:
    env = {"CUDA_HOME": "/c", "NCCL_DEBUG": "INFO", "http_proxy": "p", "MY_PASSWORD": "x", "EDITOR": "vi",
           "_CONDOR_AssignedGPUs": "GPU-1", "TRITON_CACHE_DIR": "/t"}  # fmt: skip
    facts = gather(env, prefix=None, own="/nowhere", progress=Silent(), root=tmp_path)
    assert sorted(facts.variables) == [
        "CUDA_HOME",
        "NCCL_DEBUG",
        "TRITON_CACHE_DIR",
        "_CONDOR_AssignedGPUs",
        "http_proxy",
    ]


def test_a_named_environment_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not an installed environment"):
        gather({}, prefix=tmp_path, own="/", progress=Silent())


def test_deep_looks_at_all_files_and_what_fails_is_told(tmp_path: Path) -> None:
    environment(tmp_path / "env")
    facts = gather({"PATH": ""}, prefix=tmp_path / "env", own="/", deeper=Deeper(), progress=Silent(), root=tmp_path)
    assert "path-of-build-machine" in {cause.symptom for cause in diagnose(facts).causes}
    assert [each.what for each in facts.skipped] == ["docker"]
    failed = gather(
        {"PATH": ""}, prefix=tmp_path / "env", own="/", deeper=Deeper(fails=True), progress=Silent(), root=tmp_path
    )
    assert "no reader" in {each.what: each.reason for each in failed.skipped}["files of the environment"]
    without = gather({"PATH": ""}, prefix=None, own="/nowhere", deeper=Deeper(), progress=Silent(), root=tmp_path)
    assert "there is no environment" in {each.what: each.reason for each in without.skipped}["files of the environment"]


def test_more_libraries_than_are_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.paths, "MOST_LIBRARIES", 0)
    (tmp_path / ".cache/flashinfer").mkdir(parents=True)
    (tmp_path / ".cache/flashinfer/x.so").touch()
    facts = gather({"HOME": str(tmp_path)}, prefix=None, own="/nowhere", progress=Silent(), root=tmp_path)
    assert "more than 0" in {each.what: each.reason for each in facts.skipped}["compile caches"]
