"""Tensors as bytes: their numbers, and how far two of one type and shape are apart. Nothing but the standard library.

Bytes are little-endian, rows first. bfloat16 is the upper half of a float32.
"""

from __future__ import annotations

import array
import math
from collections.abc import Sequence
from dataclasses import dataclass

from orbit.core.records import Record
from orbit.errors import InputError

CHUNK = 4096
INTEGER = {"int64": "q"}
FLOATING = {"float32": "I", "bfloat16": "H", "float64": "Q"}
"""Type -> struct code of an unsigned integer of its size."""
SIZES = {"int64": 8, "float32": 4, "bfloat16": 2, "float64": 8}


class Stats(Record, frozen=True, kw_only=True):
    """What a tensor of floating-point numbers is like; over its finite values."""

    min: float = 0.0
    max: float = 0.0
    mean: float = 0.0
    rms: float = 0.0
    nonfinite: int = 0


class Difference(Record, frozen=True, kw_only=True):
    """How far two tensors are apart."""

    elements: int
    differing: int
    """Elements of unequal bits."""
    max_ulp: int
    """Most representable numbers between two elements (for integers: their distance); NaN is left out."""
    max_abs: float
    at: tuple[int, ...]
    """Where that is."""
    left: float | None
    """The two values there; None for NaN and infinities, which JSON has not."""
    right: float | None
    nan: int = 0
    """Elements that are NaN on one side alone."""


@dataclass(frozen=True, slots=True)
class Bits:
    """A tensor as it lies in memory."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes
    stats: Stats | None = None


def numbers(dtype: str, data: bytes | memoryview) -> Sequence[float]:
    """The elements as Python numbers. Raises :class:`InputError` for a type that is not known."""
    if dtype == "bfloat16":
        wide = array.array("I", [half << 16 for half in _cast(data, "H")])
        return memoryview(wide.tobytes()).cast("f")
    code = {"float32": "f", "float64": "d", "int64": "q"}.get(dtype)
    if code is None:
        raise InputError(f"tensor of type {dtype}", fix="the record was written by another version of orbit")
    return _cast(data, code)


def stats_of(values: Sequence[float]) -> Stats:
    """Statistics in pure Python."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return Stats(nonfinite=len(values))
    return Stats(
        min=min(finite),
        max=max(finite),
        mean=math.fsum(finite) / len(finite),
        rms=math.sqrt(math.fsum(value * value for value in finite) / len(finite)),
        nonfinite=len(values) - len(finite),
    )


def difference(
    dtype: str, shape: Sequence[int], left: bytes | memoryview, right: bytes | memoryview
) -> Difference | None:
    """The distance of two tensors of ``dtype`` and ``shape``; None when every bit is equal."""
    code = FLOATING.get(dtype) or INTEGER[dtype]
    a, b = _cast(left, code), _cast(right, code)
    if len(a) != len(b):
        raise InputError("two tensors of one shape have unequal sizes", fix="make the record anew")
    differing = nan = 0
    worst, at = -1, -1
    for start in range(0, len(a), CHUNK):
        if a[start : start + CHUNK] == b[start : start + CHUNK]:
            continue
        for index in range(start, min(start + CHUNK, len(a))):
            if a[index] == b[index]:
                continue
            differing += 1
            if dtype in FLOATING and _is_nan(a[index], dtype) + _is_nan(b[index], dtype):
                nan += _is_nan(a[index], dtype) != _is_nan(b[index], dtype)
                at = index if at < 0 else at
                continue
            distance = abs(_ordered(a[index], dtype) - _ordered(b[index], dtype))
            if distance > worst:
                worst, at = distance, index
    if not differing:
        return None
    x, y = numbers(dtype, left), numbers(dtype, right)
    gaps = [abs(p - q) for p, q in zip(x, y, strict=True) if math.isfinite(p) and math.isfinite(q)]
    return Difference(
        elements=len(a),
        differing=differing,
        max_ulp=max(worst, 0),
        max_abs=float(max(gaps, default=0.0)),
        at=unravel(at, shape),
        left=_finite(x[at]),
        right=_finite(y[at]),
        nan=nan,
    )


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def unravel(index: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Position of the ``index``-th element, row by row."""
    place: list[int] = []
    for size in reversed(shape):
        index, rest = divmod(index, size)
        place.append(rest)
    return tuple(reversed(place))


def _cast(data: bytes | memoryview, code: str) -> memoryview:
    return memoryview(data).cast("B").cast(code)  # type: ignore[call-overload, no-any-return]


def _ordered(bits: int, dtype: str) -> int:
    """The bits of a float as an integer that grows with it; both zeros are 0."""
    if dtype not in FLOATING:
        return bits
    sign = 1 << (8 * SIZES[dtype] - 1)
    return bits if bits < sign else sign - bits


def _is_nan(bits: int, dtype: str) -> bool:
    """All bits of the exponent set, and some of the fraction."""
    infinity = {"float32": 0x7F800000, "bfloat16": 0x7F80, "float64": 0x7FF0000000000000}[dtype]
    return bits & ((1 << (8 * SIZES[dtype] - 1)) - 1) > infinity
