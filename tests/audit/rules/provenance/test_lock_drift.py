"""lock-drift: an environment against its own record and its lock; one that claims nothing is not judged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from orbit.audit.known.policy import Policy
from orbit.audit.rules.provenance.lock_drift import same_version
from orbit.core.findings import Finding
from orbit.profile.lock import Lock, parse_lock
from tests.audit.support import judge, make_policy
from tests.writers.environment import EnvironmentWriter, write_sound_environment

RULE = "lock-drift"
SHA = "a" * 64
INDEX = "https://index.invalid/simple"


def lock_text(*packages: tuple[str, str]) -> str:
    text = 'version = 1\nrequires-python = ">=3.12"\n[[package]]\nname = "project"\nversion = "0"\n'
    text += (
        'source = { editable = "." }\ndependencies = [' + ", ".join(f'{{ name = "{n}" }}' for n, _ in packages) + "]\n"
    )
    for name, version in packages:
        wheel = f'{{ url = "https://files.invalid/{name}-{version}-py3-none-any.whl", hash = "sha256:{SHA}" }}'
        wheels = "" if name == "built" else wheel
        text += f'[[package]]\nname = "{name}"\nversion = "{version}"\nsource = {{ registry = "{INDEX}" }}\n'
        text += f"wheels = [{wheels}]\n"
    return text


def make_lock(*packages: tuple[str, str]) -> Lock:
    return parse_lock(lock_text(*packages).encode(), Path("uv.lock"))


def given(lock: Lock) -> Policy:
    policy = make_policy()
    return replace(policy, lock=lock, profile=policy.profile)


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return write_sound_environment(tmp_path / "e")  # good 1.0 and native 1.0


def record(env: EnvironmentWriter, *dists: dict[str, str], lock: str = "b", skipped: tuple[str, ...] = ()) -> None:
    share = env.prefix / "share/orbit"
    share.mkdir(parents=True)
    skips = [{"what": name, "reason": "tier extended"} for name in skipped]
    content = {"profile": "probe", "lock": lock, "distributions": dists, "skipped": skips}
    (share / "environment.json").write_text(json.dumps(content))


def dist(name: str, version: str = "1.0", sha256: str = SHA, origin: str = "index") -> dict[str, str]:
    return {"name": name, "version": version, "sha256": sha256, "origin": origin, "wheel": f"{name}.whl"}


def told(findings: list[Finding]) -> list[tuple[str, str, bool]]:
    return [(key, value, f.fatal) for f in findings for key, value in f.evidence.items()]


BOTH = (dist("good"), dist("native"))
LOCKED = (("good", "1.0"), ("native", "1.0"))


def test_an_environment_that_claims_nothing_is_not_judged(env: EnvironmentWriter) -> None:
    env.add("anything", {}, version="7")
    assert judge(env.prefix, RULE) == []


def test_as_recorded_and_as_locked(env: EnvironmentWriter) -> None:
    lock = make_lock(*LOCKED, ("built", "2.0"))
    record(env, *BOTH, lock=lock.sha256, skipped=("built",))
    assert judge(env.prefix, RULE) == []
    assert judge(env.prefix, RULE, given(lock)) == []


def test_differences_from_its_own_record(env: EnvironmentWriter) -> None:
    record(env, dist("good", "2.0"), dist("gone"))
    for tool in ("pip", "orbit"):
        env.add(tool, {})
    assert told(judge(env.prefix, RULE)) == [
        ("missing", "gone 1.0", True), ("other", "good 1.0 (not 2.0)", True), ("extra", "native 1.0", False),
    ]  # fmt: skip


def test_another_lock_than_the_one_given(env: EnvironmentWriter) -> None:
    record(env, *BOTH, lock="b")
    (finding,) = judge(env.prefix, RULE, given(make_lock(*LOCKED)))
    assert finding.evidence["environment"] == "b"


def test_a_record_that_is_not_what_the_lock_installs(env: EnvironmentWriter) -> None:
    lock = make_lock(("good", "1.0"), ("native", "1.1"), ("silently-left-out", "3"))
    record(env, dist("good", sha256="c" * 64), dist("native"), lock=lock.sha256)
    messages = [finding.message for finding in judge(env.prefix, RULE, given(lock))]
    assert [message.partition(" ")[2] for message in messages] == [
        "packages of the lock were left out without being recorded as left out",
        "packages were installed in another version than the lock has",
        "packages were installed from a wheel that is not in the lock",
    ]


def test_from_an_index_without_being_locked(env: EnvironmentWriter) -> None:
    lock = make_lock(("good", "1.0"))
    record(env, *BOTH, lock=lock.sha256)
    assert told(judge(env.prefix, RULE, given(lock))) == [("packages", "native", True)]


def test_what_orbit_built_itself_has_its_own_hash(env: EnvironmentWriter) -> None:
    lock = make_lock(("good", "1.0"))
    record(
        env, dist("good", sha256="c" * 64, origin="wheelhouse"), dist("native", origin="wheelhouse"), lock=lock.sha256
    )
    assert judge(env.prefix, RULE, given(lock)) == []


def test_an_environment_without_a_record_against_a_given_lock(env: EnvironmentWriter) -> None:
    lock = make_lock(("good", "2.0"), ("gone", "3"), ("built", "4"))
    assert told(judge(env.prefix, RULE, given(lock))) == [
        ("missing", "gone 3", True), ("other", "good 1.0 (not 2.0)", True), ("extra", "native 1.0", False),
        ("packages", "built", False),
    ]  # fmt: skip
    assert judge(env.prefix, RULE, given(make_lock(*LOCKED))) == []


def test_from_elsewhere_than_the_index(env: EnvironmentWriter) -> None:
    url = '{"url": "file:///tmp/x.whl", "archive_info": {"hashes": {"sha256": "%s"}}}'
    env.add("one", {"one-1.0.dist-info/direct_url.json": (url % SHA).encode()})
    env.add("two", {"two-1.0.dist-info/direct_url.json": (url % ("d" * 64)).encode()})
    lock = make_lock(*LOCKED, ("one", "1.0"), ("two", "1.0"))
    assert told(judge(env.prefix, RULE, given(lock))) == [("distributions", "two from file:///tmp/x.whl", True)]


def test_a_damaged_record(env: EnvironmentWriter) -> None:
    record(env, *BOTH)
    (env.prefix / "share/orbit/environment.json").write_text('{"profile": ')
    (finding,) = judge(env.prefix, RULE)
    assert finding.message.startswith("cannot be read")


@pytest.mark.parametrize(
    ("found", "wanted", "same"),
    [
        ("1.0", "1.0.0", True),
        ("2.11.0+cu130", "2.11.0", True),
        ("2.11.0", "2.11.0+cu130", False),
        ("2.11.0+cu128", "2.11.0+cu130", False),
        ("odd", "odd", True),
        ("odd", "1", False),
    ],
)
def test_versions(found: str, wanted: str, same: bool) -> None:
    assert same_version(found, wanted) is same
