"""Every rule: what must fail, and the nearest thing that must not."""

from __future__ import annotations

from typing import Any

import pytest

from orbit.profile.floor import Drift
from orbit.profile.lock import Lock
from orbit.profile.policy import Policy
from orbit.profile.rules import RULES, run_rules
from tests.profile.locks import SHA, facts_of, lock_of, package, policy_of, profile_of, wheel

GIT = "https://git.test/deep-ep"
COMMIT = "d4f41e4e93602a15e95f55f6ee8df8f1aaa0e4bb"
SDIST = f'{{ url = "https://files.test/k-1.0.tar.gz", hash = "{SHA}", size = 7 }}'


def found(lock: Lock, policy: Policy | None = None, **more: Any) -> list[tuple[str, str]]:
    return [(f.rule, f.subject) for f in run_rules(facts_of(lock, policy, **more))]


def source(**rule: str) -> Policy:
    return policy_of(sources=[{"reason": "r"} | rule])


def family(**table: Any) -> Policy:
    return policy_of(families=[{"name": "fam", "reason": "r"} | table])


def test_a_plain_lock_is_clean() -> None:
    assert found(lock_of(package("a"), stack=["a"])) == []


# lock-source

GIT_RULE = {"name": "deep-ep", "source": "git", "url": GIT, "commit": COMMIT}


@pytest.mark.parametrize(
    ("where", "bad"),
    [
        (f'git = "{GIT}?rev=main#{COMMIT}"', False),
        (f'git = "{GIT}.git#{COMMIT}"', False),
        (f'git = "{GIT}#{"0" * 40}"', True),
        (f'git = "https://git.test/fork/deep-ep#{COMMIT}"', True),
        ('registry = "https://index.test/simple"', True),
    ],
)
def test_git_source(where: str, bad: bool) -> None:
    wheels = [wheel("deep-ep", "1.0")]
    lock = lock_of(package("a"), package("deep-ep", source=where, wheels=wheels))
    assert found(lock, source(**GIT_RULE)) == ([("lock-source", "deep-ep")] if bad else [])


def test_forbidden_name_anywhere_in_the_lock() -> None:
    policy = source(name="sgl-kernel", source="forbidden")
    assert found(lock_of(package("sgl-kernel")), policy) == [("lock-source", "sgl-kernel")]
    assert found(lock_of(package("sglang-kernel")), policy) == []


@pytest.mark.parametrize(("version", "bad"), [("0.3.0", False), ("99.9", False), ("100", True), ("999.9.9", True)])
def test_version_bound_of_a_source(version: str, bad: bool) -> None:
    policy = source(name="emerging-optimizers", source="registry", version="<100")
    lock = lock_of(package("emerging-optimizers", version))
    assert found(lock, policy) == ([("lock-source", "emerging-optimizers")] if bad else [])


def test_registry_name_from_elsewhere() -> None:
    policy = source(name="torch", source="registry")
    bad = lock_of(
        package("torch", source='url = "https://files.test/torch-1.0-py3-none-any.whl"', wheels=[wheel("torch", "1.0")])
    )
    assert found(bad, policy) == [("lock-source", "torch")]
    assert found(lock_of(package("torch")), policy) == []


def test_unlisted_name_must_come_from_the_one_index() -> None:
    second = package("b", source='registry = "https://other.test/simple"', wheels=[wheel("b", "1.0")])
    assert found(lock_of(package("a"), package("c"), second)) == [("lock-source", "b")]
    assert found(lock_of(package("a"), package("b", source=f'git = "{GIT}#{COMMIT}"'))) == [("lock-source", "b")]


def test_workspace_name() -> None:
    policy = source(name="orbit", source="workspace")
    assert found(lock_of(package("a")), policy) == []
    assert found(lock_of(package("orbit"), name="project"), policy) == [("lock-source", "orbit")]


# lock-hash


def test_every_file_has_a_sha256() -> None:
    good, bare, other = wheel("a", "1.0"), wheel("a", "1.0", "py2-none-any", ""), wheel("a", "1.0", digest="md5:00")
    assert found(lock_of(package("a", wheels=[good, bare]))) == [("lock-hash", "a")]
    assert found(lock_of(package("a", wheels=[other]))) == [("lock-hash", "a")]
    assert found(lock_of(package("a", wheels=[good], sdist=SDIST.replace(SHA, "")))) == [("lock-hash", "a")]
    assert found(lock_of(package("a", wheels=[good], sdist=SDIST))) == []


def test_a_package_without_any_file() -> None:
    assert found(lock_of(package("a", wheels=[]))) == [("lock-hash", "a")]


def test_git_without_commit() -> None:
    lock = lock_of(package("a"), package("deep-ep", source=f'git = "{GIT}"'))
    assert found(lock, source(**GIT_RULE)) == [("lock-hash", "deep-ep"), ("lock-source", "deep-ep")]


# lock-python


def test_python_of_profile_and_lock() -> None:
    assert found(lock_of(python=">=3.13")) == [("lock-python", "test")]
    assert found(lock_of(python=">=3.11")) == []
    assert found(lock_of(), profile=profile_of(python="3.11")) == [("lock-python", "test")]


# lock-cuda-release


@pytest.mark.parametrize(
    ("name", "version", "bad"),
    [
        ("nvidia-cuda-nvcc", "13.0.88", False),
        ("nvidia-cuda-nvcc", "13.5.37", True),
        ("nvidia-cuda-nvcc", "13.00.1", False),  # PEP 440: the same release number
        ("nvidia-cuda-nvcc", "13.1.0", True),
        ("nvidia-cuda-novelty", "13.0.88", True),  # nobody has judged it
        ("novelty-cu12", "1.0", True),
        ("novelty-cuda", "1.0", False),
        ("nvidia-cuda-nvcc", "not-a-version", True),
    ],
)
def test_cuda_component(name: str, version: str, bad: bool) -> None:
    expected = [("lock-cuda-release", name)] if bad else []
    assert found(lock_of(package(name, version, wheels=[wheel(name, "1.0")]), stack=[name])) == expected


def test_cuda_rule_looks_at_what_is_installed_and_at_the_compiler() -> None:
    nvcc = package("nvidia-cuda-nvcc", "13.5.37")
    assert found(lock_of(nvcc)) == []
    compiled = lock_of(nvcc, cuda=["nvidia-cuda-nvcc"])
    assert found(compiled) == []
    assert found(compiled, profile=profile_of(core=["probe"])) == [("lock-cuda-release", "nvidia-cuda-nvcc")]
    assert found(lock_of(nvcc, stack=["nvidia-cuda-nvcc"]), profile=profile_of(extras=())) == []


def test_release_that_the_policy_does_not_know() -> None:
    assert found(lock_of(), profile=profile_of(cuda="14.0")) == [("lock-cuda-release", "test")]


# lock-family


@pytest.mark.parametrize(
    ("versions", "bad"),
    [
        ({"te": "2.14.0", "te-cu": "2.14.0", "te-torch": "2.14.0"}, False),
        ({"te": "2.14.0", "te-cu": "2.13.0", "te-torch": "2.14.0"}, True),
        ({"te": "2.14.0", "te-cu": "2.14.0"}, True),
        ({"te-torch": "2.14.0"}, True),
        ({}, False),
        ({"te": "2.14.0", "te-cu": "2.14.0+cu130", "te-torch": "2.14.0"}, False),  # a local label is no difference
    ],
)
def test_complete_family(versions: dict[str, str], bad: bool) -> None:
    policy = family(members=["te", "te-cu", "te-torch"], complete=True)
    lock = lock_of(*(package(n, v) for n, v in versions.items()), stack=versions)
    assert found(lock, policy) == ([("lock-family", "fam")] if bad else [])


@pytest.mark.parametrize(("version", "bad"), [("4.6.0", False), ("4.5.0", True)])
def test_family_by_pattern_may_be_partial(version: str, bad: bool) -> None:
    names = {"dsl": "4.6.0", "dsl-libs-base": "4.6.0", "dsl-libs-cu": version, "dsl-other": "1.0"}
    lock = lock_of(*(package(n, v) for n, v in names.items()), stack=names)
    assert found(lock, family(members=["dsl", "dsl-libs-*"])) == ([("lock-family", "fam")] if bad else [])


@pytest.mark.parametrize(
    ("versions", "bad"),
    [
        ({"torch": "2.11.0", "vision": "0.26.0"}, False),
        ({"torch": "2.11.0"}, False),
        ({"torch": "2.10.0", "vision": "0.25.0"}, False),
        ({"torch": "2.11.0", "vision": "0.25.0"}, True),
        ({"torch": "2.12.0"}, True),
    ],
)
def test_family_by_combination(versions: dict[str, str], bad: bool) -> None:
    rows = [{"torch": "2.11.0", "vision": "0.26.0"}, {"torch": "2.10.0", "vision": "0.25.0"}]
    policy = family(members=["torch", "vision"], equal=False, combinations=rows)
    lock = lock_of(*(package(n, v) for n, v in versions.items()), stack=versions)
    assert found(lock, policy) == ([("lock-family", "fam")] if bad else [])


def test_family_outside_the_profile_is_not_judged() -> None:
    lock = lock_of(package("te"), stack=["te"])
    policy = family(members=["te", "te-torch"], complete=True)
    assert found(lock, policy, profile=profile_of(extras=())) == []


# lock-wheel


@pytest.mark.parametrize(
    ("recipes", "core", "sdists", "bad"),
    [
        ([], [], [], True),
        (["k"], [], [], True),
        ([], ["k"], [], True),
        (["k"], ["k"], [], False),
        ([], [], ["k"], False),
        (["other"], ["other"], ["other"], True),
    ],
)
def test_package_without_a_wheel(recipes: list[str], core: list[str], sdists: list[str], bad: bool) -> None:
    lock = lock_of(package("k", wheels=[wheel("k", "1.0", "cp313-cp313-linux_x86_64")], sdist=SDIST), stack=["k"])
    policy = policy_of(sdists=[{"name": name, "reason": "r"} for name in sdists])
    result = found(lock, policy, profile=profile_of(core=core), recipes=frozenset(recipes))
    assert result == ([("lock-wheel", "k")] if bad else [])


def test_usable_wheel_needs_no_recipe() -> None:
    lock = lock_of(
        package("k", wheels=[wheel("k", "1.0", "cp312-abi3-manylinux_2_17_x86_64")], sdist=SDIST), stack=["k"]
    )
    assert found(lock) == []


# lock-reason


def pins(*names: str) -> Policy:
    return policy_of(pins=[{"name": name, "reason": "r"} for name in names])


@pytest.mark.parametrize(
    ("specifier", "held"),
    [("==1.0", True), ("<2", True), ("<=2", True), ("~=1.0", True), (">=1", False), (">1,!=1.5", False), ("", False)],
)
def test_a_bound_needs_a_reason_and_a_reason_a_bound(specifier: str, held: bool) -> None:
    lock = lock_of(package("a"), requires=f'{{ name = "a", specifier = "{specifier}" }}')
    finding = [("lock-reason", "a")]
    assert found(lock) == (finding if held else [])
    assert found(lock, pins("a")) == ([] if held else finding)


def test_an_override_needs_a_reason_and_a_reason_an_override() -> None:
    lock = lock_of(package("a"), overrides={"a": "==1.0"})
    assert found(lock) == [("lock-reason", "a")]
    assert found(lock, pins("a")) == []
    assert found(lock, pins("a", "gone")) == [("lock-reason", "gone")]


# lock-setting


def test_settings_that_uv_ignores() -> None:
    assert found(lock_of(), settings=("environments", "index", "prerelease")) == [
        ("lock-setting", "tool.uv.index"),
        ("lock-setting", "tool.uv.prerelease"),
    ]


# lock-floor


def test_what_orbit_needs_and_a_lock_of_its_own_does_not_bring() -> None:
    drift = (
        Drift(subject="rich", here="rich>=14", there=""),
        Drift(subject="requires-python", here="3.12", there="3.13"),
    )
    assert found(lock_of(), floor=drift) == [("lock-floor", "requires-python"), ("lock-floor", "rich")]
    assert found(lock_of(), floor=()) == []


def test_every_finding_says_what_to_do() -> None:
    lock = lock_of(
        package("k", wheels=[], source=f'git = "{GIT}"'), stack=["k"], overrides={"k": "==1"}, python=">=3.13"
    )
    findings = run_rules(facts_of(lock, family(members=["k", "l"], complete=True), settings=("index",)))
    assert {f.rule for f in findings} >= {"lock-family", "lock-hash", "lock-python", "lock-reason", "lock-setting"}
    assert all(f.message and f.fix for f in findings)
    assert len(RULES) == 9
