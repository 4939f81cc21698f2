"""The real stack: clean apart from what is declared, and the cuBLASLt defect found in the environment that has it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from orbit.audit.run import audit_environment
from orbit.core.proc import run
from orbit.core.tools import uv
from orbit.errors import CommandFailed, MissingError
from orbit.profile.model import load_profile
from tests.audit.real import environment

pytestmark = pytest.mark.integration


def test_environment_of_the_lock_is_clean_but_for_declared_exceptions() -> None:
    prefix = environment()
    report = audit_environment(prefix, load_profile("cu130"))
    fatal = [finding for finding in report.findings if finding.fatal]
    if (prefix / "pyvenv.cfg").exists():
        # what `orbit env create` settles is rightly found in a plain virtual environment: two owners of one path, and
        # certifi's bundle where the host adds its own certificates to it
        settled = {("file-conflict", "flashinfer-python + torch-c-dlpack-ext"), ("record-hash", "certifi")}
        fatal = [finding for finding in fatal if (finding.rule, finding.subject) not in settled]
    assert fatal == []
    assert report.facts["shared_objects"] > 600
    assert report.facts["containers"] > 30_000
    assert len(report.expected) >= 10


def install(folder: Path, *requirements: str) -> Path:
    """A small environment of real wheels, hard-linked from uv's cache where it has them."""
    site = folder / "lib" / "python3.12" / "site-packages"
    argv: list[str | Path] = [
        uv(),
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--python",
        sys.executable,
        "--target",
        site,
        *requirements,
    ]
    try:
        run(argv, doing="installing real wheels", timeout_s=600)
    except (CommandFailed, MissingError) as error:
        pytest.skip(f"cannot install {' '.join(requirements)}: {error.what}")
    return folder


@pytest.mark.network
@pytest.mark.parametrize(("cublas", "lacking"), [("13.1.0.3", True), ("13.4.1.1", False)])
def test_transformer_engine_needs_a_newer_cublas(tmp_path: Path, cublas: str, lacking: bool) -> None:
    prefix = install(tmp_path / "env", f"nvidia-cublas=={cublas}", "transformer-engine-cu13==2.14.0")
    report = audit_environment(prefix, load_profile("probe"))
    findings = [finding for finding in report.findings if finding.rule == "symbol-version"]
    if not lacking:
        assert findings == []
        return
    (finding,) = findings
    assert finding.subject == "transformer_engine/wheel_lib/libtransformer_engine.so"
    assert finding.evidence["symbols"] == "cublasLtGroupedMatrixLayoutInit_internal@libcublasLt.so.13"
    assert "nvidia-cublas" in finding.fix


@pytest.mark.network
def test_golden_counts_of_cublaslt_13_1(tmp_path: Path) -> None:
    from collections import Counter

    from orbit.audit.binary.fatbin import read_containers

    prefix = install(tmp_path / "env", "nvidia-cublas==13.1.0.3")
    path = prefix / "lib/python3.12/site-packages/nvidia/cu13/lib/libcublasLt.so.13"
    counts = Counter(i.arch for c in read_containers(path) if c.section == ".nv_fatbin" for i in c.images)
    assert dict(counts) == {
        "sm_75": 166,
        "sm_80": 482,
        "sm_86": 105,
        "sm_89": 247,
        "sm_90": 221,
        "sm_90a": 1376,
        "sm_100": 1187,
        "sm_100a": 1,
        "sm_103": 64,
        "sm_120": 463,
        "sm_120f": 1133,
        "sm_121": 4,
        "compute_75": 1,
        "compute_120": 287,
    }
