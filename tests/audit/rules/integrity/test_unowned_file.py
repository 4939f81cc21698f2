"""unowned-file: what no RECORD lists; compiled files, notes of installers and conda's files are silent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.core.findings import Severity
from tests.audit.support import judge
from tests.writers.elf import write_elf
from tests.writers.environment import EnvironmentWriter, write_sound_environment

RULE = "unowned-file"
TAGGED = "native/_c.cpython-312-x86_64-linux-gnu.so"


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return write_sound_environment(tmp_path / "e")


def put(env: EnvironmentWriter, path: str, data: bytes = b"x") -> None:
    (env.site / path).parent.mkdir(parents=True, exist_ok=True)
    (env.site / path).write_bytes(data)


def test_what_installers_and_interpreters_write_is_silent(env: EnvironmentWriter) -> None:
    for path in (
        "good/__pycache__/__init__.cpython-312.pyc",
        "good/__init__.pyc",
        "_virtualenv.py",
        "_virtualenv.pth",
        "README.txt",
        "good-1.0.dist-info/REQUESTED",
        "good-1.0.dist-info/uv_cache.json",
        "old-1.0.egg-info/PKG-INFO",
    ):
        put(env, path)
    (env.site / "empty").mkdir()
    assert judge(env.prefix, RULE) == []


def test_package_without_an_owner(env: EnvironmentWriter) -> None:
    for name in ("__init__", "core", "model"):
        put(env, f"megatron/{name}.py")
    put(env, "megatron/README.md")
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.severity) == ("megatron", Severity.WARNING)
    assert "4 files that no lock" in finding.message


def test_strays_in_an_owned_package(env: EnvironmentWriter) -> None:
    put(env, "good/cache.bin")
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.severity) == ("good", Severity.NOTE)
    put(env, "good/patch.py")
    (finding,) = judge(env.prefix, RULE)
    assert (finding.evidence["paths"], finding.severity) == ("good/patch.py", Severity.WARNING)


def test_leftovers_of_an_interrupted_pip(env: EnvironmentWriter) -> None:
    put(env, "~orch/__init__.py")
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, "interrupted" in finding.message) == ("~orch", True)


def test_old_build_that_shadows_the_installed_one(env: EnvironmentWriter) -> None:
    env.add("ext", {"ext/__init__.py": b"", "ext/_c.so": write_elf(), "ext/_d.py": b""})
    put(env, "ext/_c.cpython-312-x86_64-linux-gnu.so", write_elf())
    put(env, "ext/_d.so", write_elf())
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.fatal) == ("ext/_c.cpython-312-x86_64-linux-gnu.so", True)
    assert "ext/_d.so" in finding.evidence["paths"]


def test_old_build_that_comes_second_or_that_nobody_can_import_is_no_error(env: EnvironmentWriter) -> None:
    put(env, "native/_c.so", write_elf())
    put(env, "native/_c.cpython-310-x86_64-linux-gnu.so", write_elf())
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.severity) == ("native", Severity.WARNING)
    assert (env.site / TAGGED).is_file()


def test_conda_knows_its_files(env: EnvironmentWriter) -> None:
    put(env, "conda_pkg/__init__.py")
    meta = env.prefix / "conda-meta"
    meta.mkdir()
    (meta / "broken-1.json").write_text("[" * 10_000)
    assert len(judge(env.prefix, RULE)) == 1
    files = ["lib/python3.12/site-packages/conda_pkg/__init__.py"]
    (meta / "conda-pkg-1.0-0.json").write_text(json.dumps({"files": files, "name": "conda-pkg"}))
    assert judge(env.prefix, RULE) == []


def test_distribution_without_record_is_not_reported_twice(env: EnvironmentWriter) -> None:
    (env.site / "good-1.0.dist-info/RECORD").unlink()
    assert judge(env.prefix, RULE) == []
