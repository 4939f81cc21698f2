"""Platform tags: what each one promises, and which needs go beyond it."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from orbit.audit.binary.dynamic import VersionNeed
from orbit.audit.installed.environment import read_environment
from orbit.audit.known import policies
from orbit.audit.known.policies import above, base_glibc, host_glibc, load_policies, lowest_floor, promise_of
from orbit.core.console import Silent
from orbit.core.paths import data_file
from orbit.errors import InputError
from tests.audit.support import make_policy
from tests.writers.elf import Export, write_elf
from tests.writers.environment import EnvironmentWriter


def need(version: str, *, weak: bool = False) -> VersionNeed:
    return VersionNeed("libx.so", version, weak)


@pytest.mark.parametrize(
    ("tag", "promise"),
    [
        ("any", ("any", (0, 0), "")),
        ("manylinux_2_28_x86_64", ("glibc", (2, 28), "x86_64")),
        ("manylinux1_i686", ("glibc", (2, 5), "i686")),
        ("manylinux2010_x86_64", ("glibc", (2, 12), "x86_64")),
        ("manylinux2014_aarch64", ("glibc", (2, 17), "aarch64")),
        ("musllinux_1_2_x86_64", ("musl", (1, 2), "x86_64")),
        ("linux_x86_64", ("linux", (0, 0), "x86_64")),
    ],
)
def test_tags(tag: str, promise: tuple[str, tuple[int, int], str]) -> None:
    found = promise_of(tag)
    assert found is not None
    assert (found.tag, *found[1:]) == (tag, *promise)


@pytest.mark.parametrize("tag", ["macosx_11_0_arm64", "win_amd64", "manylinux2024_x86_64", "manylinux_3_1_x86_64", ""])
def test_tags_that_promise_nothing_on_linux(tag: str) -> None:
    assert promise_of(tag) is None


@pytest.mark.parametrize(
    ("version", "glibc", "machine", "beyond"),
    [
        ("GLIBC_2.17", 17, "x86_64", False),
        ("GLIBC_2.18", 17, "x86_64", True),
        ("GLIBC_2.18", 17, "aarch64", False),
        ("GLIBC_2.2.5", 5, "x86_64", False),
        ("GLIBC_2.4", 34, "x86_64", False),
        ("GLIBCXX_3.4.19", 17, "x86_64", False),
        ("GLIBCXX_3.4.20", 17, "x86_64", True),
        ("CXXABI_1.3.9", 17, "x86_64", True),
        ("CXXABI_1.3.9", 24, "x86_64", False),
        ("CXXABI_TM_1", 12, "x86_64", True),
        ("CXXABI_TM_1", 17, "x86_64", False),
        ("GLIBC_ABI_DT_RELR", 35, "x86_64", True),
        ("GLIBC_ABI_DT_RELR", 36, "x86_64", False),
        ("GCC_12.0.0", 34, "x86_64", True),
        ("ZLIB_1.2.9", 24, "x86_64", True),
        # 2.32 is not listed: it has what the next listed release has
        ("GLIBCXX_3.4.29", 32, "x86_64", False),
        ("GLIBC_2.33", 32, "x86_64", True),
        # newer than the table
        ("GLIBC_2.45", 45, "x86_64", False),
        # versions of other libraries say nothing about the system
        ("libcublas.so.13", 5, "x86_64", False),
        ("OPENSSL_3.0.0", 5, "x86_64", False),
        ("GLIBC_PRIVATE", 5, "x86_64", False),
    ],
)
def test_versions_beyond_a_floor(version: str, glibc: int, machine: str, beyond: bool) -> None:
    assert [item.version for item in above([need(version)], glibc, machine)] == [version] * beyond
    assert not list(above([need(version, weak=True)], glibc, machine))


def test_the_lowest_floor() -> None:
    assert lowest_floor([need("GLIBC_2.27"), need("GLIBCXX_3.4.21")], "x86_64") == 27
    assert lowest_floor([need("GLIBCXX_3.4.21")], "x86_64") == 24
    assert lowest_floor([], "x86_64") == 5
    assert lowest_floor([], "x86_64", ["libmvec.so.1"]) == 24
    assert lowest_floor([], "x86_64", ["libnowhere.so"]) is None
    assert lowest_floor([need("GLIBC_2.99")], "x86_64") is None


def test_libraries_that_the_system_brings() -> None:
    table = load_policies()
    tags = ("manylinux2010_x86_64", "manylinux_2_28_x86_64", "musllinux_1_2_x86_64")
    old, new, musl = (promise for tag in tags if (promise := promise_of(tag)))
    assert [table.allows(old, name) for name in ("libc.so.6", "libexpat.so.1", "libmvec.so.1", "libcudart.so.13")] == [
        True, True, False, False,
    ]  # fmt: skip
    assert table.allows(new, "libmvec.so.1")
    assert (table.allows(musl, "libc.musl-x86_64.so.1"), table.allows(musl, "libc.so.6")) == (True, False)


def test_floors_only_rise() -> None:
    """A system with a newer glibc has what an older one has: a slip of the pen in the table would break it."""
    floors = load_policies().floors
    for machine in ("x86_64", "aarch64"):
        for older, newer in itertools.pairwise(floors):
            for family in ("GLIBC", *older.versions):
                low, high = older.highest(family, machine), newer.highest(family, machine)
                assert low is not None
                assert high is not None
                assert policies.number(low) <= policies.number(high), (family, newer.glibc)


def test_the_base_and_a_target_with_its_own_libc(tmp_path: Path) -> None:
    policy = make_policy()
    assert base_glibc() == base_glibc(policy.system) == 36
    env = EnvironmentWriter(tmp_path / "e")
    env.add("x", {"x/_c.so": write_elf(soname="libother.so.6", exports=[Export("f", "GLIBC_2.80")])})
    assert host_glibc(read_environment(env.prefix, policy.profile, Silent()), policy.system) == 36
    own = write_elf(soname="libc.so.6", exports=[Export("f", "GLIBC_2.2.5"), Export("g", "GLIBC_2.39")])
    env.add("libc", {"libc.so.6": own})
    assert host_glibc(read_environment(env.prefix, policy.profile, Silent()), policy.system) == 39


@pytest.mark.parametrize(
    ("change", "says"),
    [(("glibc = 12", "glibc = 99"), "rising order"), (("schema = 1", "schema = 2"), "schema 2")],
)
def test_a_table_that_cannot_be_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: tuple[str, str], says: str
) -> None:
    text = data_file("kernels", "expectations", "manylinux.toml").read_text()
    assert change[0] in text
    (tmp_path / "manylinux.toml").write_text(text.replace(*change))
    monkeypatch.setattr(policies, "data_file", lambda *_parts: tmp_path / "manylinux.toml")
    load_policies.cache_clear()
    try:
        with pytest.raises(InputError, match=says):
            load_policies()
    finally:
        load_policies.cache_clear()
