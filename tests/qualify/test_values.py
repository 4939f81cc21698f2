"""Bits as numbers, and distances between them, against the struct module and by hand."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.errors import InputError
from orbit.qualify.values import Difference, difference, numbers, stats_of, unravel
from tests.qualify.toy import pack


def apart(dtype: str, left: list[float], right: list[float]) -> Difference:
    found = difference(dtype, (len(left),), pack(dtype, left), pack(dtype, right))
    assert found is not None
    return found


@given(st.lists(st.floats(width=32), max_size=20))
def test_float32_is_what_struct_says(values: list[float]) -> None:
    data = struct.pack(f"<{len(values)}f", *values)
    assert struct.pack(f"<{len(values)}f", *numbers("float32", data)) == data


@given(st.lists(st.integers(0, 0xFFFF), max_size=20))
def test_bfloat16_is_the_upper_half_of_a_float32(halves: list[int]) -> None:
    wanted = [struct.unpack("<f", struct.pack("<I", half << 16))[0] for half in halves]
    found = numbers("bfloat16", struct.pack(f"<{len(halves)}H", *halves))
    assert [(math.isnan(a) and math.isnan(b)) or a == b for a, b in zip(found, wanted, strict=True)] == [True] * len(
        halves
    )


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(1, 1000))
def test_ulp_counts_the_numbers_between(value: float, steps: int) -> None:
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    other = struct.unpack("<f", struct.pack("<I", bits + steps))[0]
    if math.isfinite(other) and (bits ^ (bits + steps)) >> 31 == 0:
        assert apart("float32", [1.0, value], [1.0, other]).max_ulp == steps


def test_distances_across_zero_and_of_both_zeros() -> None:
    tiny = 2.0**-149
    assert apart("float32", [-tiny], [tiny]).max_ulp == 2
    zeros = apart("float32", [0.0], [-0.0])
    assert (zeros.differing, zeros.max_ulp, zeros.max_abs) == (1, 0, 0.0)


def test_the_largest_distance_has_its_place_and_its_values() -> None:
    left = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    right = [1.0, 2.0 + 2.0**-22, 3.0, 4.5, 5.0, 6.0]
    found = difference("float32", (2, 3), pack("float32", left), pack("float32", right))
    assert found is not None
    assert (found.elements, found.differing, found.at) == (6, 2, (1, 0))
    assert (found.left, found.right, found.max_abs) == (4.0, 4.5, 0.5)
    assert found.max_ulp == 2**20


def test_bfloat16_and_integers() -> None:
    assert apart("bfloat16", [1.0], [1.0 + 2.0**-7]).max_ulp == 1
    assert apart("int64", [5, 5], [5, 9]).max_ulp == 4


def test_equal_bits_are_no_difference() -> None:
    assert difference("float32", (2,), pack("float32", [1.0, math.nan]), pack("float32", [1.0, math.nan])) is None


def test_nan_on_one_side_is_counted_and_is_no_number() -> None:
    found = apart("float32", [1.0, 2.0], [1.0, math.nan])
    assert (found.nan, found.differing, found.at, found.right) == (1, 1, (1,), None)
    assert found.left == 2.0


def test_a_difference_far_into_a_tensor_is_found() -> None:
    left = [0.5] * 10_000
    right = [*left[:9_999], 0.75]
    assert apart("float32", left, right).at == (9_999,)


def test_unequal_sizes_and_unknown_types_are_refused() -> None:
    with pytest.raises(InputError, match="unequal sizes"):
        difference("float32", (1,), bytes(4), bytes(8))
    with pytest.raises(InputError, match="float8"):
        numbers("float8", b"")


def test_statistics_leave_out_what_is_not_finite() -> None:
    found = stats_of([1.0, -3.0, math.inf, math.nan])
    assert (found.min, found.max, found.mean, found.nonfinite) == (-3.0, 1.0, -1.0, 2)
    assert found.rms == pytest.approx(math.sqrt(5))
    assert stats_of([math.nan]).nonfinite == 1


def test_unravel_is_row_by_row() -> None:
    assert [unravel(index, (2, 3)) for index in range(6)] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert unravel(0, ()) == ()
