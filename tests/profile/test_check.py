from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from orbit.core.paths import checkout_root
from orbit.core.records import canonical
from orbit.errors import InputError, MissingError
from orbit.profile.check import LockReport, check_lock
from orbit.profile.model import load_profile


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A checkout's files that the lock check reads."""
    root = checkout_root()
    for name in ("pyproject.toml", "uv.lock", "README.md", "LICENSE"):
        shutil.copy(root / name, tmp_path / name)
    for folder in ("env", "kernels/recipes"):
        shutil.copytree(root / folder, tmp_path / folder)
    return tmp_path


def test_a_copy_of_the_checkout_is_clean_and_quick(copy: Path) -> None:
    began = time.monotonic()
    report = check_lock(load_profile("cu130"), copy)
    assert report.clean
    assert report.built == ("causal-conv1d", "flash-attn", "mamba-ssm", "transformer-engine-torch")
    assert time.monotonic() - began < 5  # 0.2 s on two idle cores; the bound is for a busy machine
    assert b"orbit.lock-report/1" in canonical(report)
    assert report.lock_sha256 == check_lock(load_profile("probe"), copy).lock_sha256


def test_a_key_that_uv_ignores_is_the_only_finding(copy: Path) -> None:
    path = copy / "pyproject.toml"
    path.write_text(path.read_text().replace("[tool.uv]\n", '[tool.uv]\nprerelease = "allow"\n'))
    report = check_lock(load_profile("cu130"), copy)
    assert [(finding.rule, finding.subject) for finding in report.findings] == [("lock-setting", "tool.uv.prerelease")]


def test_a_stale_lock_is_reported_beside_the_other_findings(copy: Path) -> None:
    lock = copy / "uv.lock"
    lock.write_text(
        lock.read_text().replace(
            'name = "emerging-optimizers"\nversion = "0.3.0"', 'name = "emerging-optimizers"\nversion = "999.9.9"'
        )
    )
    report = check_lock(load_profile("cu130"), copy)
    assert [finding.rule for finding in report.findings] == ["lock-stale", "lock-source"]
    assert not report.clean


@pytest.mark.parametrize(
    ("file", "kind", "says"),
    [
        ("uv.lock", MissingError, "uv.lock: no such file"),
        ("pyproject.toml", InputError, "pyproject.toml: no such file"),
        ("env/lock-policy.toml", InputError, "lock-policy.toml: no such file"),
    ],
)
def test_a_missing_file_is_named(copy: Path, file: str, kind: type[Exception], says: str) -> None:
    (copy / file).unlink()
    with pytest.raises(kind, match=says):
        check_lock(load_profile("cu130"), copy)


def test_report_without_findings_is_clean() -> None:
    report = LockReport(profile="p", lock_sha256="0", packages=1, download_bytes=1, built=(), findings=())
    assert report.clean
