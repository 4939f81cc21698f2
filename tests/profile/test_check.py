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


def test_the_lock_of_cuda_12_is_its_own(copy: Path) -> None:
    report = check_lock(load_profile("cu128"), copy)
    assert report.findings == ()
    assert report.built == ("causal-conv1d", "flash-attn", "mamba-ssm", "transformer-engine-torch")
    assert report.lock_sha256 != check_lock(load_profile("cu130"), copy).lock_sha256


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_a_stale_lock_of_its_own_is_found_and_the_command_names_its_folder(copy: Path) -> None:
    edit(copy / "env/profiles/cu128/pyproject.toml", '    "ray[default]==2.55.1",', '    "ray[default]==2.54.0",')
    report = check_lock(load_profile("cu128"), copy)
    (stale,) = [finding for finding in report.findings if finding.rule == "lock-stale"]
    assert stale.evidence["pyproject"] == "extra stack: ray[default]==2.55.1 -> ray[default]==2.54.0"
    assert "UV_NO_CONFIG=1 uv lock --project env/profiles/cu128" in stale.fix
    assert check_lock(load_profile("cu130"), copy).clean


@pytest.mark.parametrize(
    ("file", "kind", "says"),
    [
        ("env/profiles/cu128/uv.lock", MissingError, "cu128/uv.lock: no such file"),
        ("env/profiles/cu128/pyproject.toml", InputError, "cu128/pyproject.toml: no such file"),
        ("env/lock-policies/cu128.toml", InputError, "lock-policies/cu128.toml: no such file"),
    ],
)
def test_a_missing_file_of_its_own_is_named(copy: Path, file: str, kind: type[Exception], says: str) -> None:
    (copy / file).unlink()
    with pytest.raises(kind, match=says):
        check_lock(load_profile("cu128"), copy)
    assert check_lock(load_profile("cu130"), copy).clean


def test_what_orbit_needs_must_not_drift(copy: Path) -> None:
    own = copy / "env/profiles/cu128/pyproject.toml"
    edit(own, '    "rich>=14",\n', "")
    found = {finding.subject: finding for finding in check_lock(load_profile("cu128"), copy).findings}
    assert found["rich"].rule == "lock-floor"
    assert found["rich"].evidence == {"checkout": "rich>=14", "profile": ""}
    assert "copy it to env/profiles/cu128/pyproject.toml" in found["rich"].fix


def test_an_edit_of_the_checkouts_extras_leaves_a_lock_of_its_own_alone(copy: Path) -> None:
    edit(copy / "pyproject.toml", '    "wandb",\n', '    "wandb",\n    "trl",\n')
    edit(copy / "pyproject.toml", 'version = "0.1.0"', 'version = "0.2.0"')
    assert check_lock(load_profile("cu128"), copy).findings == ()


def test_a_key_that_uv_ignores_is_found_in_a_project_of_its_own(copy: Path) -> None:
    path = copy / "env/profiles/cu128/pyproject.toml"
    edit(path, "[tool.uv]\n", '[tool.uv]\nresolution = "lowest"\n')
    (finding,) = check_lock(load_profile("cu128"), copy).findings
    assert (finding.rule, finding.subject) == ("lock-setting", "tool.uv.resolution")
    assert finding.message.startswith("env/profiles/cu128/pyproject.toml: ")


def test_report_without_findings_is_clean() -> None:
    report = LockReport(profile="p", lock_sha256="0", packages=1, download_bytes=1, built=(), findings=())
    assert report.clean
