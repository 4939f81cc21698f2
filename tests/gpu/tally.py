"""What the truth scripts share: bounds of stored results, and a tally of what was compared and what was wrong."""

from __future__ import annotations

import math
from typing import Any

import torch

U = 2.0**-24
"""Unit roundoff of float32."""
STORED = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: U}
"""Type -> unit roundoff."""
SMALLEST = {torch.bfloat16: 2.0**-133, torch.float16: 2.0**-24, torch.float32: 2.0**-126}
"""Type -> what is lost below its range; float32 arithmetic of these kernels flushes what is not normal."""


def stored(exact: Any, before: Any, dtype: Any, roundings: int = 1) -> Any:
    """How far a value of ``dtype`` may be from ``exact`` when it was known up to ``before`` and then rounded."""
    growth = (1.0 + STORED[dtype]) ** roundings - 1.0
    return before + growth * (exact.abs() + before) + SMALLEST[dtype]


class Tally:
    """Comparisons made, the largest share of a bound for each kind of result, and failures."""

    def __init__(self) -> None:
        self.worst: dict[str, float] = {}
        self.failures: list[str] = []
        self.values = 0
        """Single values compared."""

    def check(self, name: str, good: bool, detail: str = "") -> None:
        """Remember a failure, and print it."""
        if good:
            return
        self.failures.append(f"{name} {detail}")
        print(f"FAILED {name} {detail}", flush=True)

    def compare(self, name: str, where: str, got: Any, exact: Any, bound: Any) -> None:
        """Every element within its bound; ``name`` is the kind of result, ``where`` the case."""
        value = got.detach().double()
        if value.shape != exact.shape:
            self.check(f"{name}: {where}", False, f"shape {list(value.shape)} instead of {list(exact.shape)}")
            return
        share = float(((value - exact).abs() / bound).max()) if value.numel() else 0.0
        finite = bool(torch.isfinite(value).all())
        self.check(f"{name}: {where}", finite and share <= 1.0, f"share of bound {share:.3g}, all finite: {finite}")
        self._note(name, share, value.numel())

    def norm(self, name: str, where: str, got: Any, exact: Any, limit: float) -> None:
        """Euclidean length of the error as a part of that of ``exact``, at most ``limit``; kept as a share of it."""
        value = got.detach().double()
        if value.shape != exact.shape:
            self.check(f"{name}: {where}", False, f"shape {list(value.shape)} instead of {list(exact.shape)}")
            return
        share = float((value - exact).norm() / exact.norm()) / limit
        self.check(f"{name}: {where}", share <= 1.0, f"error {share * limit:.3g} of its length, allowed {limit:.3g}")
        self._note(name, share, value.numel())

    def _note(self, name: str, share: float, values: int) -> None:
        old = self.worst.get(name, 0.0)
        self.worst[name] = math.nan if math.isnan(share) or math.isnan(old) else max(old, share)
        self.values += values

    def finish(self) -> int:
        """Print the table; the exit status."""
        for name, share in sorted(self.worst.items()):
            print(f"{name:45} {share:.3f}")
        print(f"{self.values} values compared, {len(self.failures)} failures; largest shares of the bounds above")
        return 1 if self.failures else 0


def device_line() -> str:
    """Device and versions, for the first line of a report."""
    major, minor = torch.cuda.get_device_capability()
    return f"{torch.cuda.get_device_name()} ({major}.{minor}), torch {torch.__version__}"
