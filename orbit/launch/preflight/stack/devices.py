"""Memory of a device, and whether it multiplies right: every bit is compared."""

from __future__ import annotations

import time
from typing import Any

import torch

CHUNK = 32 << 20
"""Numbers of 8 bytes in one piece of memory."""
ODD = -7046029254386353131
"""2^64 divided by the golden ratio, as a signed number: neighbours have nothing in common (Knuth, TAOCP 3, 6.4)."""
INNER = 256
ROWS = {"cuda": 2048, "cpu": 256}
"""Processors are slow with narrow types."""
LARGEST = {"float64": 1 << 20, "float32": 127, "bfloat16": 1, "float16": 2}
"""Type -> largest number in a matrix, such that all sums over :data:`INNER` are exact in it, in any order."""


def try_memory(device: Any, share: float, most: int) -> dict[str, Any]:
    """Fill ``share`` of the free memory (at most ``most`` bytes) with a pattern and read it back, then the inverse.

    All of it is written before anything is read. Raises :class:`RuntimeError` with the number of wrong words.
    """
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else most
    words = min(int(free * share), most) // 8
    sizes = [min(CHUNK, words - start) for start in range(0, words, CHUNK)]
    pieces = [torch.empty(size, dtype=torch.int64, device=device) for size in sizes]
    began, wrong = time.monotonic(), 0
    for inverse in (False, True):
        for number, piece in enumerate(pieces):
            piece.copy_(pattern(len(piece), number, device, inverse=inverse))
        for number, piece in enumerate(pieces):
            wrong += int((piece != pattern(len(piece), number, device, inverse=inverse)).sum())
    if wrong:
        raise RuntimeError(f"{wrong} of {2 * words} words of memory are not what was written")
    return {"bytes": 8 * words, "seconds": round(time.monotonic() - began, 3)}


def pattern(words: int, number: int, device: Any, *, inverse: bool) -> Any:
    """What piece ``number`` holds: another value in every word."""
    value = (torch.arange(words, dtype=torch.int64, device=device) + number * CHUNK) * ODD
    return ~value if inverse else value


def matrices(dtype: str, rows: int, seed: int) -> tuple[Any, Any]:
    """Two matrices of whole numbers on the CPU, float64."""
    generator = torch.Generator().manual_seed(seed)
    most = LARGEST[dtype]
    sides = (rows, INNER), (INNER, rows)
    left, right = (torch.randint(-most, most + 1, side, generator=generator).double() for side in sides)
    return left, right


def references(kind: str, seed: int = 1) -> dict[str, tuple[Any, Any, Any]]:
    """Type -> both matrices and their product by the CPU, float64, of whole numbers that the type holds."""
    found = {}
    for dtype in LARGEST:
        left, right = matrices(dtype, ROWS[kind], seed)
        found[dtype] = (left, right, left @ right)
    return found


def try_matmul(device: Any, wanted: dict[str, tuple[Any, Any, Any]]) -> dict[str, Any]:
    """The same products on ``device``: they must be equal. Raises :class:`RuntimeError` with the first that is not."""
    began = time.monotonic()
    for dtype, (left, right, exact) in wanted.items():
        kind = getattr(torch, dtype)
        got = (left.to(device, kind) @ right.to(device, kind)).cpu().double()
        wrong = int((got != exact).sum())
        if wrong:
            row, column = divmod(int((got != exact).flatten().nonzero()[0]), got.shape[1])
            value, should = float(got[row, column]), float(exact[row, column])
            where = f"[{row}, {column}] is {value:g} instead of {should:g}"
            raise RuntimeError(f"{dtype}: {wrong} of {got.numel()} products are wrong; {where}")
    return {"types": " ".join(wanted), "seconds": round(time.monotonic() - began, 3)}
