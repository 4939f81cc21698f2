"""A small Triton matmul on tensor cores. Imported only by the check that runs it: Triton wants a module's source."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

BLOCK = 64


@triton.jit  # type: ignore[untyped-decorator]
def _matmul_kernel(left, right, out, inner, columns, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803, PLR0917
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    step = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, inner, BLOCK):
        a = tl.load(left + rows[:, None] * inner + (start + step)[None, :])
        b = tl.load(right + (start + step)[:, None] * columns + cols[None, :])
        total += tl.dot(a, b)
    tl.store(out + rows[:, None] * columns + cols[None, :], total.to(out.dtype.element_ty))


def matmul(left: Any, right: Any) -> Any:
    """``left @ right``, contiguous, sizes multiples of 64: accumulated in float32, stored in the type of ``left``."""
    rows, inner = left.shape
    columns = right.shape[1]
    out = left.new_empty((rows, columns))
    _matmul_kernel[(rows // BLOCK, columns // BLOCK)](left, right, out, inner, columns, BLOCK=BLOCK)
    return out
