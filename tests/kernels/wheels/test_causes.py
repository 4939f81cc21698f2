"""orbit.kernels.wheels.causes: which circumstance of a build makes two texts differ."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.kernels.wheels.causes import (
    CAUSES,
    REAL,
    TAKEN_OUT,
    TEXT,
    ZEROS,
    differing,
    explain,
    is_circumstance,
    plain,
    skeleton,
    squeezed,
)


@pytest.mark.parametrize(
    ("one", "two", "cause"),
    [
        ("/tmp/a/src/x.cu", "/var/builds/longer/src/x.cu", "build-folder"),
        ("assert failed in /tmp/a/x.h:12", "assert failed in src/x.h:12", "build-folder"),
        ("/tmp/a/src", "/tmp/b/src", "build-folder"),
        ("/tmp/one", "/tmp/two", "build-folder"),
        ("tmpxft_00006463_00000000-6_a.cudafe1.cpp", "tmpxft_0000648f_00000000-6_a.cudafe1.cpp", "temporary-name"),
        ("ccAb12Cd.o", "ccZZ99zz.o", "temporary-name"),
        ("_ZN36_GLOBAL__N__0eb26226_4_a_cu_d9cc662b1kEv", "_ZN36_GLOBAL__N__b7801470_4_a_cu_d9cc662b1kEv",
         "internal-name"),
        ("_INTERNAL_0eb26226_4_a_cu_d9cc662b_1234", "_INTERNAL_b7801470_4_a_cu_00000000_99", "internal-name"),
        # in mangled names, with and without a process number: what follows it has its own length in front
        ("_ZN4cuda3std3__453_GLOBAL__N__0b6b289f_20_causal_conv1d_bwd_cu_ce2123d16ignoreE",
         "_ZN4cuda3std3__459_GLOBAL__N__00ba09c3_20_causal_conv1d_bwd_cu_d98a7a9c_179756ignoreE", "internal-name"),
        ("built Nov 30 2026", "built Dec  1 2026", "build-time"),
        ("2026-11-30T12:00:01Z", "2026-11-30T12:00:02Z", "build-time"),
        ("at 12:00:01", "at 12:00:02", "build-time"),
        ("GCC: (Debian 12.2.0-14) 12.2.0", "GCC: (GNU) 13.1.0 20230426", "compiler"),
        ("tools, release 13.0, V13.0.88", "tools, release 12.9, V12.9.41", "compiler"),
        ("Generator: setuptools (80.10.2)", "Generator: setuptools (79.0.0)", "compiler"),
    ],
)  # fmt: skip
def test_each_circumstance(one: str, two: str, cause: str) -> None:
    assert plain(one) == plain(two)
    assert differing(one, two) == (cause,)
    found = explain(Counter([one, "same"]), Counter(["same", two]))
    assert (set(found.causes), found.explained, dict(found.pairs)) == ({cause}, True, {cause: (one, two)})


@pytest.mark.parametrize(
    ("one", "two"),
    [("fast math", "precise math"), ("/tmp/a/x.cu", "/tmp/a/y.cu"), ("a/b", "a/c"), ("release 1", "release 2"),
     ("_ZN36_GLOBAL__N__0eb26226_4_a_cu_d9cc662b1kEv", "_ZN36_GLOBAL__N__0eb26226_4_a_cu_d9cc662b1mEv"),
     ("_0eb26226_8_one_cu_d9cc662b", "_0eb26226_8_two_cu_d9cc662b"), ("12.5", "12.6")],
)  # fmt: skip
def test_other_texts_are_not_explained(one: str, two: str) -> None:
    found = explain(Counter([one]), Counter([two]))
    assert (found.left, found.right, found.causes) == ((one,), (two,), frozenset())


def test_texts_count_as_often_as_they_are_there() -> None:
    found = explain(Counter({"/tmp/a/x": 2}), Counter({"/tmp/b/x": 1}))
    assert (found.left, found.right) == (("/tmp/a/x",), ())


def test_a_skeleton_is_what_lies_between_texts() -> None:
    assert skeleton(b"\1text\0\0\0\2") == skeleton(b"\1longer text\0\2")
    assert skeleton(b"\1text\0\2") != skeleton(b"\1text\0\3")


def test_every_circumstance_has_its_words() -> None:
    assert set(TAKEN_OUT) < set(CAUSES)
    assert set(CAUSES) > REAL
    assert is_circumstance(["build-folder", "moved"])
    assert not is_circumstance(["build-folder", "code"])


@given(st.lists(st.sampled_from([b"\0", b"\0\0\0", b"text of it", b"abc", b"\1", b"\xff\0"]), max_size=60))
def test_a_skeleton_made_in_parts_is_that_of_the_whole(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    whole = ZEROS.sub(b"\0", TEXT.sub(b"\0", data))
    assert skeleton(data) == whole
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("orbit.kernels.wheels.causes.PART_BYTES", 3)
        assert skeleton(data) == whole
        assert squeezed(data) == ZEROS.sub(b"\0", data)
