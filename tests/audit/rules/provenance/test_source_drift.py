"""source-drift: other commits than locked, unrecorded ones, branches; releases and full hashes are silent."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from orbit.audit.known.policy import Policy
from orbit.core.findings import Severity
from orbit.core.paths import checkout_root
from orbit.profile.lock import Lock, Package, Source, read_lock
from tests.audit.support import judge, make_policy
from tests.writers.environment import EnvironmentWriter, write_sound_environment

RULE = "source-drift"
COMMIT = "e7706faf8d1c3b9f241e36860640ad1dac644ede"
OTHER = "0123456789012345678901234567890123456789"


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return write_sound_environment(tmp_path / "e")


def add(env: EnvironmentWriter, **info: object) -> None:
    content = info.pop("text", None) or json.dumps({"url": "https://example.invalid/x.git", **info})
    env.add("tool", {"tool-1.0.dist-info/direct_url.json": str(content).encode()})


def locked(commit: str) -> Policy:
    source = Source(kind="git", url=f"https://example.invalid/x.git?rev=main#{commit}")
    package = Package(name="tool", version="1.0", source=source)
    lock = Lock(path=Path("uv.lock"), sha256="a", requires_python=">=3.12", packages=(package,))
    return replace(make_policy(), lock=lock)


def vcs(commit: str, revision: str = "") -> dict[str, str]:
    return {"vcs": "git", "commit_id": commit} | ({"requested_revision": revision} if revision else {})


def test_another_commit_than_the_locks(env: EnvironmentWriter) -> None:
    add(env, vcs_info=vcs(OTHER, "main"))
    (finding,) = judge(env.prefix, RULE, locked(COMMIT))
    assert (finding.subject, finding.fatal) == ("tool", True)
    assert finding.evidence["lock"] == COMMIT


def test_the_locks_commit(env: EnvironmentWriter) -> None:
    add(env, vcs_info=vcs(COMMIT, "main"))
    assert judge(env.prefix, RULE, locked(COMMIT)) == []


@pytest.mark.parametrize(
    ("info", "severity"),
    [
        ({"vcs_info": vcs("")}, Severity.WARNING),
        ({"vcs_info": {"vcs": "git", "commit_id": 7}}, Severity.WARNING),
        ({"vcs_info": vcs(COMMIT, "main")}, Severity.NOTE),
        ({"vcs_info": vcs(COMMIT)}, Severity.NOTE),
        ({"url": "https://example.invalid/tool-1.0-py3-none-any.whl"}, Severity.NOTE),
        ({"url": "file:///home/ann/tool", "dir_info": {}}, Severity.NOTE),
        ({"text": "not JSON"}, Severity.WARNING),
    ],
)
def test_sources_that_are_not_fixed(env: EnvironmentWriter, info: dict[str, object], severity: Severity) -> None:
    add(env, **info)
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.severity) == ("tool", severity)


@pytest.mark.parametrize(
    "info",
    [
        {"vcs_info": vcs(COMMIT, "v2.14.0")},
        {"vcs_info": vcs(COMMIT, "refs/tags/2.14")},
        {"vcs_info": vcs(COMMIT, COMMIT)},
        {"url": "https://example.invalid/x.whl", "archive_info": {"hashes": {"sha256": "ab"}}},
        {"url": "https://example.invalid/x.whl", "archive_info": {"hash": "sha256=ab"}},
        {"url": "file:///home/ann/tool", "dir_info": {"editable": True}},
        {"url": "file:///home/ann/x.whl", "archive_info": {}},
    ],
)
def test_sources_that_are_fixed_or_another_rules_matter(env: EnvironmentWriter, info: dict[str, object]) -> None:
    add(env, **info)
    assert judge(env.prefix, RULE) == []


def test_the_policy_names_the_commit_where_the_lock_does_not_have_the_package(env: EnvironmentWriter) -> None:
    url = json.dumps({"url": "https://example.invalid/fht.git", "vcs_info": vcs(OTHER, OTHER)})
    env.add("fast-hadamard-transform", {"fast_hadamard_transform-1.0.dist-info/direct_url.json": url.encode()})
    assert judge(env.prefix, RULE) == []
    lock = read_lock(checkout_root() / "uv.lock")
    assert lock.find("fast-hadamard-transform") is None
    (finding,) = judge(env.prefix, RULE, replace(make_policy(), lock=lock))
    assert finding.fatal
