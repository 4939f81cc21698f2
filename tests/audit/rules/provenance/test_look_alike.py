"""look-alike: strangers under a known name, placeholders, versions of nines; and the real things beside them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orbit.core.paths import checkout_root
from orbit.profile.lock import read_lock
from orbit.profile.model import load_profile
from tests.audit.support import judge, make_policy
from tests.writers.environment import EnvironmentWriter, write_sound_environment

RULE = "look-alike"
SUMMARY = ["Summary: A library."]


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return write_sound_environment(tmp_path / "e")


@pytest.mark.parametrize(
    ("name", "version", "files"),
    [
        ("deep-ep", "1.0.0", {"deep_ep/__init__.py": b""}),
        ("deep_gemm", "1.0.0", {"deep_gemm/__init__.py": b""}),
        ("emerging-optimizers", "999.9.9", {"emerging_optimizers.py": b""}),
        ("flash-attn-interface", "0.0.1", {}),
        ("apex", "0.9.10.dev0", {"apex/__init__.py": b"", "apex/views.py": b""}),
    ],
)
def test_strangers(env: EnvironmentWriter, name: str, version: str, files: dict[str, bytes]) -> None:
    env.add(name, files, version=version, headers=SUMMARY)
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.fatal) == (name.replace("_", "-"), True)


@pytest.mark.parametrize(
    ("name", "version", "files"),
    [
        ("deep-ep", "1.2.1+d4f41e4", {"deep_ep/__init__.py": b""}),
        ("deep-ep", "1.0.0", {"deep_ep_cpp.cpython-312-x86_64-linux-gnu.so": b"x"}),
        ("deep-gemm", "1.0.0+18db30e", {"deep_gemm/__init__.py": b""}),
        ("emerging-optimizers", "0.3.0", {"emerging_optimizers/__init__.py": b""}),
        ("apex", "0.1", {"apex/amp/__init__.py": b""}),
        ("calendar-versioned", "2026.9.1", {"c.py": b""}),
        ("ninety", "99.1.5", {"n.py": b""}),
    ],
)
def test_the_real_ones(env: EnvironmentWriter, name: str, version: str, files: dict[str, bytes]) -> None:
    env.add(name, files, version=version)
    assert judge(env.prefix, RULE) == []


def test_a_stranger_that_was_built_from_a_repository_is_none(env: EnvironmentWriter) -> None:
    url = b'{"url": "https://example.invalid/x", "vcs_info": {"vcs": "git", "commit_id": "a"}}'
    env.add("deep-gemm", {"deep_gemm-1.0.0.dist-info/direct_url.json": url}, version="1.0.0")
    assert judge(env.prefix, RULE) == []


@pytest.mark.parametrize("version", ["0.0.1", "0.0.0", "1.0.0"])
def test_placeholders(env: EnvironmentWriter, version: str) -> None:
    env.add("taken", {}, version=version, headers=SUMMARY)
    env.add("silent", {}, version="7.1")
    assert [(f.subject, f.fatal) for f in judge(env.prefix, RULE)] == [("silent", False), ("taken", False)]


def test_meta_packages_are_no_placeholders(env: EnvironmentWriter) -> None:
    env.add("toolkit", {}, headers=["Requires-Dist: nvidia-cublas"])
    env.add("named", {}, version="3.2", headers=SUMMARY)
    env.add("full", {"full.py": b""}, version="0.0.1")
    assert judge(env.prefix, RULE) == []


@pytest.mark.parametrize("version", ["99.99.99", "999", "9999.0.0"])
def test_versions_of_nines(env: EnvironmentWriter, version: str) -> None:
    env.add("internal-tool", {"internal_tool.py": b""}, version=version)
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.fatal) == ("internal-tool", False)


def test_what_the_profile_forbids_is_forbidden_in_its_own_environments(env: EnvironmentWriter) -> None:
    env.add("megatron-bridge", {"megatron/bridge/__init__.py": b""}, version="0.5.1")
    env.add("orbit-probe", {"orbit_probe.py": b""}, version="0.1.0")
    assert judge(env.prefix, RULE) == []
    lock = read_lock(checkout_root() / "uv.lock")
    policy = replace(make_policy(), profile=load_profile("cu130"), lock=lock)
    (finding,) = judge(env.prefix, RULE, policy)
    assert finding.subject == "megatron-bridge"
    assert "transformers" in finding.message
