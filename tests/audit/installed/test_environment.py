"""Facts about an environment on disk: what a process in it has for variables."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orbit.audit.installed.environment import identity_of, read_environment, variables_of
from orbit.core.console import Silent
from orbit.profile.model import load_profile
from tests.writers.environment import EnvironmentWriter

RECORD = "share/orbit/environment.json"
SITE = "lib/python3.12/site-packages"


def test_variables_are_those_of_an_activated_environment() -> None:
    values = variables_of(load_profile("probe"), identity="0123456789abcdef")
    assert values["CUDA_HOME"] == "/opt/orbit/cuda"
    assert values["TRITON_CACHE_DIR"] == "/tmp/orbit-<uid>/cache/0123456789ab/triton"
    assert "PYTHONPATH" not in values
    assert "CUDA_HOME" not in variables_of(load_profile("probe"), has=())


def test_only_an_environment_with_a_toolkit_has_cuda_home(tmp_path: Path) -> None:
    writer = EnvironmentWriter(tmp_path / "e")
    profile = load_profile("probe")
    assert "CUDA_HOME" not in read_environment(writer.prefix, profile, Silent()).variables
    (writer.prefix / "cuda").mkdir()
    (writer.prefix / "share/orbit").mkdir(parents=True)
    (writer.prefix / RECORD).write_text('{"identity": "feedc0ffee123456"}')
    facts = read_environment(writer.prefix, profile, Silent())
    assert facts.variables["CUDA_HOME"] == "/opt/orbit/cuda"
    assert "/feedc0ffee12/" in facts.variables["TRITON_CACHE_DIR"]


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"identity": 7}', b'{"identity": "../../x"}', b"\xff", b"[" * 100_000, b'{"other": 1}']
)
def test_a_record_that_states_no_identity(content: bytes) -> None:
    assert identity_of({RECORD: content}) == ""
    assert identity_of({}) == ""


def test_what_contents_tsv_states_is_not_taken_for_what_lies_on_the_disk(tmp_path: Path) -> None:
    writer = EnvironmentWriter(tmp_path / "entry" / "prefix")
    writer.add("demo", {"demo/__init__.py": b"answer = 42\n"})
    profile, path = load_profile("probe"), f"{SITE}/demo/__init__.py"
    before = read_environment(writer.prefix, profile, Silent()).digests[path]
    (tmp_path / "entry" / "contents.tsv").write_text(f"{path}\t{before}\n")
    file = writer.prefix / path
    info = file.stat()
    with open(file, "r+b") as edited:
        edited.write(b"answer = 43\n")
    os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))
    assert file.stat().st_mtime_ns == info.st_mtime_ns
    assert read_environment(writer.prefix, profile, Silent()).digests[path] != before
