"""Every GPU against every other one: may it read the other's memory, does what is copied arrive, and how fast."""

from __future__ import annotations

import time
from typing import Any

import torch

COPY_BYTES = 256 << 20
REPEATS = 4


def try_peers(devices: list[Any]) -> dict[str, Any]:
    """The matrix of peer access and of rates (GB/s). Raises :class:`RuntimeError` when a copy is not what was sent."""
    access, rates = [], []
    for one in devices:
        row, rate = [], []
        for other in devices:
            same = one == other
            row.append(same or torch.cuda.can_device_access_peer(one, other))
            rate.append(0.0 if same else _copy(one, other))
        access.append(row)
        rates.append(rate)
    slowest = min((value for row in rates for value in row if value), default=0.0)
    return {
        "access": access,
        "all": all(all(row) for row in access),
        "gigabytes_per_s": rates,
        "slowest": slowest,
    }


def _copy(one: Any, other: Any) -> float:
    sent = torch.arange(COPY_BYTES // 8, dtype=torch.int64, device=one)
    arrived = torch.empty_like(sent, device=other)
    arrived.copy_(sent)
    torch.cuda.synchronize(one)
    torch.cuda.synchronize(other)
    began = time.monotonic()
    for _ in range(REPEATS):
        arrived.copy_(sent)
    torch.cuda.synchronize(one)
    torch.cuda.synchronize(other)
    spent = time.monotonic() - began
    wrong = int((arrived != torch.arange(len(arrived), dtype=torch.int64, device=other)).sum())
    if wrong:
        raise RuntimeError(f"{wrong} of {len(arrived)} words from GPU {one.index} to GPU {other.index} did not arrive")
    return round(REPEATS * COPY_BYTES / spent / 1e9, 1)
