"""Which cases there are on which device."""

from __future__ import annotations

import pytest

from orbit.errors import InputError
from orbit.qualify.paths import PATHS, cases_of, find_path
from tests.qualify.toy import CASES, tiny


def test_a_cpu_has_the_paths_that_need_no_kernels() -> None:
    assert list(cases_of(tiny(), "cpu")) == CASES


def test_a_gpu_has_all_in_the_types_they_have() -> None:
    found = list(cases_of(tiny(), "cuda"))
    assert {path for path, _dtype in found} == {path.name for path in PATHS}
    assert ("sgl-kernel", "float32") not in found
    assert ("orbit-kernels", "float32") in found


def test_a_chosen_path_comes_with_the_plain_one() -> None:
    assert list(cases_of(tiny(), "cpu", ["sdpa"])) == CASES
    assert list(cases_of(tiny(), "cpu", ["torch"])) == CASES[:2]
    with pytest.raises(InputError, match="known: torch"):
        list(cases_of(tiny(), "cpu", ["fast"]))
    assert find_path("sdpa").trains
