from __future__ import annotations

import pytest

from orbit.core.paths import checkout_root
from orbit.errors import InputError
from orbit.profile.explain import dependents, explain_packages, paths_to, pin_table
from orbit.profile.lock import read_lock
from orbit.profile.model import load_profile
from orbit.profile.policy import load_policy
from tests.profile.locks import lock_of, package, policy_of, profile_of, wheel

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LOCK = lock_of(
    package("own"),
    package("top", needs=["mid[fast]"]),
    package("mid", needs=["leaf"], extras={"fast": ["leaf", "quick"]}),
    package("leaf", "3.0", wheels=[wheel("leaf", "3.0", size=5000)]),
    package("quick"),
    package("kernel", source=f'git = "https://git.test/kernel#{COMMIT}"'),
    package("tool"),
    needs=["own"],
    stack=["top", "kernel"],
    cuda=["tool"],
    requires='{ name = "top", specifier = "==1.0", marker = "extra == \'stack\'" },{ name = "own", specifier = ">=1" }',
    overrides={"leaf": "==3.0"},
)
POLICY = policy_of(
    pins=[{"name": "top", "reason": "tried together"}, {"name": "leaf", "reason": "mid wants less"}],
    sources=[
        {"name": "ghost", "source": "git", "url": "https://git.test/g", "commit": COMMIT, "reason": "not that one"}
    ],
    families=[{"name": "pair", "members": ["mid", "leaf"], "reason": "r"}],
)


def test_the_table_shows_what_is_declared_held_or_built() -> None:
    table = pin_table(LOCK, POLICY, profile_of())
    rows = {row.name: row for row in table.rows}
    assert list(rows) == ["kernel", "leaf", "own", "top"]
    assert (table.packages, table.download_bytes) == (6, 5000 + 4 * 1000)
    leaf = rows["leaf"]
    assert (leaf.version, leaf.source, leaf.made, leaf.size_bytes) == ("3.0", "index", "wheel", 5000)
    assert (leaf.held, leaf.why) == ("override ==3.0", "mid wants less")
    assert (rows["top"].held, rows["top"].why) == ("stack ==1.0", "tried together")
    assert (rows["own"].held, rows["own"].why) == ("orbit >=1", "declared by the project")


def test_the_whole_table_says_who_needs_the_rest() -> None:
    rows = {row.name: row for row in pin_table(LOCK, POLICY, profile_of(), everything=True).rows}
    assert list(rows) == ["kernel", "leaf", "mid", "own", "quick", "top"]
    assert (rows["mid"].why, rows["quick"].why) == ("needed by top", "needed by mid")
    assert (rows["kernel"].source, rows["kernel"].made) == ("git 0123456789ab", "built")


def test_many_dependents_are_counted() -> None:
    many = [f"p{n}" for n in range(5)]
    lock = lock_of(package("leaf"), *(package(name, needs=["leaf"]) for name in many), stack=many)
    rows = {row.name: row.why for row in pin_table(lock, POLICY, profile_of(), everything=True).rows}
    assert rows["p0"] == "needed by orbit"
    table = pin_table(lock, policy_of(), profile_of(), everything=True)
    assert {row.name: row.why for row in table.rows}["leaf"] == "needed by p0, p1, p2 and 2 more"


def test_paths_lead_from_the_project_to_every_dependent() -> None:
    assert paths_to(LOCK, ("stack",), LOCK.package("leaf")) == (("orbit[stack]", "top", "mid", "leaf"),)
    assert paths_to(LOCK, ("stack",), LOCK.package("quick")) == (("orbit[stack]", "top", "mid[fast]", "quick"),)
    assert paths_to(LOCK, (), LOCK.package("quick")) == ()


def test_detail_of_packages() -> None:
    leaf, tool = explain_packages(LOCK, POLICY, profile_of(), ["Leaf", "tool"]).packages
    assert leaf.installed
    assert leaf.filename == "leaf-3.0-py3-none-any.whl"
    assert leaf.sha256 == "ab" * 32
    assert leaf.rules == ("family pair: mid, leaf (r)",)
    assert (tool.installed, tool.paths, tool.row.why) == (False, (), "not installed by this profile")


def test_unknown_names_get_help() -> None:
    with pytest.raises(InputError, match="kernle is not in the lock") as caught:
        explain_packages(LOCK, POLICY, profile_of(), ["kernle"])
    assert "did you mean kernel?" in caught.value.fix
    with pytest.raises(InputError, match="not that one") as caught:
        explain_packages(LOCK, POLICY, profile_of(), ["Ghost"])
    assert COMMIT in caught.value.fix


def test_dependents_and_paths_agree_on_the_real_lock() -> None:
    lock = read_lock(checkout_root() / "uv.lock")
    needed_by = dependents(lock, ("stack",))
    closure = lock.closure(("stack",))
    assert {package.name for package in closure} == set(needed_by)
    for locked in closure[::20]:
        paths = paths_to(lock, ("stack",), locked)
        assert {path[-2].partition("[")[0] for path in paths} == set(needed_by[locked.name])
        assert all(path[0] in ("orbit", "orbit[stack]") for path in paths)


def test_the_real_cublas_is_explained() -> None:
    root = checkout_root()
    lock, policy, profile = read_lock(root / "uv.lock"), load_policy(root, ("cu130.toml",)), load_profile("cu130")
    (cublas,) = explain_packages(lock, policy, profile, ["nvidia-cublas"]).packages
    assert cublas.row.held == "override ==13.4.1.1"
    assert any("cublasLtGroupedMatrixLayoutInit_internal" in said for said in cublas.rules)
    assert ("orbit[stack]", "torch", "cuda-toolkit[cublas]", "nvidia-cublas") in cublas.paths
    names = {row.name for row in pin_table(lock, policy, profile).rows}
    assert set(lock.overrides) <= names
