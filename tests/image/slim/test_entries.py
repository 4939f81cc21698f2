"""Which entries of a container stay, and why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.audit.binary.coverage import result_of
from orbit.audit.binary.fatbin import Container, Image
from orbit.image.slim.entries import decide
from orbit.profile.model import SlimPolicy

CAPABILITIES = ("9.0", "10.0")
KINDS = {"sm": "elf", "compute": "ptx", "lto": "ir"}


def container(archs: str, section: str = ".nv_fatbin") -> Container:
    images = tuple(
        Image(KINDS[arch.partition("_")[0]], arch, 100 * number, 50, 0, "", 0)
        for number, arch in enumerate(archs.split())
    )
    return Container(section, 0, 0, images)


def verdicts(archs: str, policy: SlimPolicy, section: str = ".nv_fatbin") -> str:
    """``arch:reason`` of what stays, ``arch`` in brackets of what goes."""
    box = container(archs, section)
    found = decide(box, [100] * len(box.images), CAPABILITIES, policy)
    return " ".join(
        f"{image.arch}:{reason}" if keep else f"({image.arch})"
        for image, (keep, reason) in zip(box.images, found, strict=True)
    )


@pytest.mark.parametrize(
    ("archs", "policy", "expected"),
    [
        # machine code: who loads it stays, whatever the driver prefers
        ("sm_80 sm_90 sm_90a sm_100", {}, "(sm_80) sm_90:loads sm_90a:loads sm_100:loads"),
        ("sm_90a sm_100a sm_103a sm_120f", {}, "sm_90a:loads sm_100a:loads (sm_103a) (sm_120f)"),
        ("sm_100f sm_103 sm_90", {}, "sm_100f:loads (sm_103) sm_90:loads"),
        # a target without machine code: its PTX stays whatever the policy
        ("sm_90 compute_90", {"ptx": "drop"}, "sm_90:loads compute_90:loads"),
        ("sm_80 compute_80", {"ptx": "drop"}, "(sm_80) compute_80:loads"),
        ("sm_90 sm_80 compute_120", {"ptx": "drop"}, "sm_90:loads (sm_80) compute_120:ptx"),
        ("sm_100 compute_80 compute_90a", {"ptx": "drop"}, "sm_100:loads compute_80:loads compute_90a:loads"),
        # machine code for all: the policy decides
        ("sm_90 sm_100 compute_80 compute_90", {}, "sm_90:loads sm_100:loads compute_80:ptx compute_90:ptx"),
        ("sm_90a sm_100 compute_80 compute_90", {"ptx": "newest"},
         "sm_90a:loads sm_100:loads (compute_80) compute_90:ptx"),
        ("sm_90 sm_100 compute_80 compute_90", {"ptx": "drop"}, "sm_90:loads sm_100:loads (compute_80) (compute_90)"),
        ("sm_90 sm_100 compute_120", {}, "sm_90:loads sm_100:loads compute_120:ptx"),
        # nothing for anybody
        ("sm_80 sm_120", {}, "sm_80:only-others sm_120:only-others"),
        ("sm_80 sm_120", {"others": "one"}, "sm_80:only-others (sm_120)"),
        ("sm_120", {"others": "one"}, "sm_120:only-others"),
        ("compute_120 sm_80", {"others": "one"}, "compute_120:only-others (sm_80)"),
        ("sm_80 lto_90", {"others": "one"}, "sm_80:only-others lto_90:only-others"),
        # what a device linker takes, and what nobody can read
        ("sm_90 sm_100 lto_90", {"ptx": "drop"}, "sm_90:loads sm_100:loads lto_90:links"),
        ("sm_90 sm_100 sm_5", {}, "sm_90:loads sm_100:loads sm_5:unknown"),
        ("sm_5 sm_6", {"others": "one"}, "sm_5:only-others sm_6:only-others"),
    ],
)  # fmt: skip
def test_verdicts(archs: str, policy: dict[str, str], expected: str) -> None:
    assert verdicts(archs, SlimPolicy(**policy)) == expected  # type: ignore[arg-type]


def test_relocatable_code_keeps_what_a_linker_may_compile() -> None:
    policy = SlimPolicy(ptx="drop", others="one")
    archs = "sm_80 sm_90 sm_100 compute_80 compute_120 lto_90"
    expected = "(sm_80) sm_90:loads sm_100:loads compute_80:links (compute_120) lto_90:links"
    assert verdicts(archs, policy, "__nv_relfatbin") == expected
    assert verdicts(archs, SlimPolicy(), "__nv_relfatbin") == expected.replace("(compute_120)", "compute_120:ptx")
    assert verdicts("sm_80 sm_120", policy, "__nv_relfatbin") == "sm_80:only-others sm_120:only-others"


def test_the_smallest_entry_stays_in_a_container_for_others() -> None:
    found = decide(container("sm_80 sm_86 sm_120"), [300, 100, 200], CAPABILITIES, SlimPolicy(others="one"))
    assert [keep for keep, _reason in found] == [False, True, False]


def test_an_empty_container_has_no_verdicts() -> None:
    assert decide(Container(".nv_fatbin", 0, 0, ()), [], CAPABILITIES, SlimPolicy(others="one")) == []


NAMES = ["sm_75", "sm_80", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103f", "sm_110", "sm_120a", "sm_5",
         "compute_75", "compute_90", "compute_90a", "compute_100f", "compute_120", "lto_90"]  # fmt: skip


@given(
    st.lists(st.sampled_from(NAMES), max_size=8),
    st.sampled_from(["keep", "newest", "drop"]),
    st.sampled_from(["leave", "one"]),
    st.lists(st.sampled_from(["8.0", "9.0", "10.0", "10.3", "12.0"]), min_size=1, max_size=3, unique=True),
)
def test_no_target_loses_what_it_has(archs: list[str], ptx: str, others: str, targets: list[str]) -> None:
    box = container(" ".join(archs))
    policy = SlimPolicy(ptx=ptx, others=others)  # type: ignore[arg-type]
    found = decide(box, [64] * len(archs), tuple(targets), policy)
    kept = [arch for arch, (keep, _reason) in zip(archs, found, strict=True) if keep]
    assert bool(kept) == bool(archs)
    assert all((reason == "unused") != keep for keep, reason in found)
    for target in targets:
        result = result_of(frozenset(archs), target)
        assert result_of(frozenset(kept), target) == result
        if result != "none":  # all of the same kind that it could have loaded, not only one
            of_kind = [arch for arch in archs if result_of(frozenset((arch,)), target) == result]
            assert [arch for arch in kept if result_of(frozenset((arch,)), target) == result] == of_kind
