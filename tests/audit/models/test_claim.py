"""What an environment says of itself: read when it can be, a reason when not, and compared with the right lock only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orbit.audit.facts import Environment
from orbit.audit.installed.environment import read_environment
from orbit.audit.models.claim import RECORD, claim_of, claim_problem, is_of_profile, lock_of, lock_policy
from orbit.core.console import Silent
from orbit.core.paths import checkout_root
from orbit.profile.lock import read_lock
from orbit.profile.model import load_profile
from orbit.profile.place import profile_lock
from tests.audit.support import make_policy
from tests.writers.environment import write_sound_environment


@pytest.fixture
def env(tmp_path: Path) -> Environment:
    return read_environment(write_sound_environment(tmp_path / "e").prefix, make_policy().profile, Silent())


def claiming(env: Environment, text: str) -> Environment:
    return replace(env, texts={RECORD: text.encode()})


SKIP = '{"what": "b", "reason": "later", "estimate": "1 h"}'
GOOD = '{"profile": "probe", "lock": "ab", "other": 1, "distributions": [], "skipped": [' + SKIP + "]}"


def test_a_claim_with_unknown_keys_is_read(env: Environment) -> None:
    claim = claim_of(claiming(env, GOOD))
    assert claim is not None
    assert (claim.profile, claim.lock, claim.distributions) == ("probe", "ab", ())
    skip = claim.skip_of("b")
    assert skip is not None
    assert skip.reason == "later"
    assert claim.skip_of("c") is None


def test_no_record_is_no_claim_and_no_problem(env: Environment) -> None:
    assert (claim_of(env), claim_problem(env)) == (None, "")
    assert not is_of_profile(env, make_policy())
    assert lock_of(env, make_policy()) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"profile": 1, "lock": "x"}', "\x00", "[" * 100_000])
def test_a_damaged_record_is_a_reason(env: Environment, text: str) -> None:
    damaged = claiming(env, text)
    assert claim_of(damaged) is None
    assert claim_problem(damaged)
    assert lock_of(damaged, make_policy()) is None


def test_the_claim_decides_whether_it_is_the_profiles(env: Environment) -> None:
    assert is_of_profile(claiming(env, GOOD), make_policy())
    assert not is_of_profile(claiming(env, GOOD.replace("probe", "other")), make_policy())


def test_the_checkouts_lock_is_used_only_when_it_is_the_one_named(env: Environment) -> None:
    lock = read_lock(checkout_root() / "uv.lock")
    assert lock_of(claiming(env, GOOD), make_policy()) is None
    found = lock_of(claiming(env, GOOD.replace('"ab"', f'"{lock.sha256}"')), make_policy())
    assert found is not None
    assert found.sha256 == lock.sha256
    given = replace(make_policy(), lock=lock)
    assert lock_of(env, given) is lock
    assert is_of_profile(env, given)


def test_a_profile_with_a_lock_of_its_own_is_compared_with_that_one(env: Environment) -> None:
    lock = profile_lock(load_profile("cu128"), checkout_root())
    found = lock_of(claiming(env, GOOD.replace('"ab"', f'"{lock.sha256}"')), make_policy())
    assert found is not None
    assert found.path == lock.path
    own = lock_policy(replace(make_policy(), profile=load_profile("cu128")))
    assert own is not None
    assert own.pin("transformer-engine-cu12") is not None


def test_the_shipped_lock_policy_is_there() -> None:
    policy = lock_policy(make_policy())
    assert policy is not None
    assert policy.pin("torch") is not None
