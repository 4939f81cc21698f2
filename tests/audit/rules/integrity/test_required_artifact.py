"""required-artifact: parts that builds leave out without a word, and pure wheels of what is not pure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.audit.rules.integrity.data import artifacts
from orbit.audit.rules.integrity.required_artifact import glob
from orbit.core.findings import Severity
from tests.audit.rules.integrity.images import HOME, judge_image
from tests.audit.support import judge
from tests.writers.environment import EnvironmentWriter

RULE = "required-artifact"
HELPERS = "megatron/core/datasets/helpers_cpp.cpython-312-x86_64-linux-gnu.so"
SOUND = {"megatron/core/__init__.py": b"", HELPERS: bytes(30_000)}


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return EnvironmentWriter(tmp_path / HOME)


def test_complete_distribution_is_silent(env: EnvironmentWriter) -> None:
    env.add("megatron-core", SOUND)
    env.add("somebody", {"somebody/__init__.py": b""})
    assert judge(env.prefix, RULE) == []


def test_extension_that_was_not_built(env: EnvironmentWriter) -> None:
    env.add("megatron-core", {"megatron/core/__init__.py": b"", "megatron/core/datasets/helpers.cpp": b""})
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.message) == (
        "megatron-core: megatron/core/datasets/helpers_cpp*.so",
        "is not there",
    )
    assert finding.fatal
    assert "py3-none-any" in finding.evidence["wheel"]


def test_extension_that_is_too_small(env: EnvironmentWriter) -> None:
    env.add("megatron-core", {HELPERS: bytes(100)})
    (finding,) = judge(env.prefix, RULE)
    assert "100 bytes" in finding.message


def test_fewer_files_than_needed(env: EnvironmentWriter) -> None:
    env.add("torch_memory_saver", {"torch_memory_saver_hook_mode_torch.abi3.so": bytes(60_000)})
    (finding,) = judge(env.prefix, RULE)
    assert finding.message == "is there 1 times, 2 are needed"


def test_recorded_but_deleted_is_not_there(env: EnvironmentWriter) -> None:
    env.add("megatron-core", SOUND)
    (env.site / HELPERS).unlink()
    assert len(judge(env.prefix, RULE)) == 1


def add_editable(env: EnvironmentWriter, source: str) -> None:
    folder = env.add("megatron-core", {"__editable__.megatron_core-1.0.pth": f"{source}\n".encode()})
    url = {"url": f"file://{source}", "dir_info": {"editable": True}}
    (folder / "direct_url.json").write_text(json.dumps(url))


def test_editable_installation_is_judged_in_its_sources(env: EnvironmentWriter, tmp_path: Path) -> None:
    source = tmp_path / "opt/src/Megatron-LM"
    (source / HELPERS).parent.mkdir(parents=True)
    add_editable(env, "/opt/src/Megatron-LM")
    (finding,) = judge_image(tmp_path, RULE)
    assert finding.fatal
    (source / HELPERS).write_bytes(bytes(30_000))
    assert judge_image(tmp_path, RULE) == []


def test_editable_installation_outside_is_not_judged_and_said_so(env: EnvironmentWriter) -> None:
    add_editable(env, "/home/ann/Megatron-LM")
    (finding,) = judge(env.prefix, RULE)
    assert finding.severity is Severity.NOTE


def test_every_entry_says_what_people_see() -> None:
    entries = artifacts().artifacts
    assert len(entries) >= 20
    assert [entry.dist for entry in entries if len(entry.symptom) < 20 or not entry.files] == []


def test_stars_stay_in_their_folder() -> None:
    assert glob("a/*.so").match("a/b.so")
    assert not glob("a/*.so").match("a/b/c.so")
    assert not glob("a/*.so").match("a/b.so.1")
    assert glob("a/*/x*.h").match("a/b/x1.h")
