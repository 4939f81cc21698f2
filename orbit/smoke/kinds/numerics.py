"""Comparing a GPU result with a float64 reference, element by element, against a bound derived from the formats.

Notation: u = 2^-8 is the unit roundoff of bfloat16 (8 significant bits, round to nearest). Products of two bfloat16
numbers are exact in float32. A float32 sum of k such products, in any order, is off by at most
``k * 2^-23 * sum |a_i b_i|`` (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1, with 2^-23 in place
of float32's unit roundoff 2^-24 because tensor cores truncate where the standard rounds). Storing as bfloat16 adds u
times the stored value. These are worst cases, so a correct kernel cannot fail; the sizes used keep them small enough
that one missing term of a sum, or sums kept in bfloat16, are outside (tests/smoke/kinds/test_numerics.py).
"""

from __future__ import annotations

from typing import Any

from orbit.smoke.model import CheckError

BF16_ROUNDOFF = 2.0**-8
FP32_STEP = 2.0**-23
SEED = 20


def sum_bound(magnitudes: Any, length: int) -> Any:
    """Error of a float32 sum of ``length`` exact products whose absolute values add up to ``magnitudes`` (float64)."""
    return length * FP32_STEP * magnitudes


def stored_bound(exact: Any, before: Any, roundings: int = 1) -> Any:
    """Error after storing as bfloat16 ``roundings`` times a value known to ``exact`` up to ``before``."""
    growth: float = (1.0 + BF16_ROUNDOFF) ** roundings - 1.0
    return before + growth * (exact.abs() + before)


def compare(name: str, got: Any, exact: Any, bound: Any) -> dict[str, float]:
    """Raise :class:`CheckError` where ``got`` is further from ``exact`` than ``bound`` allows (all of one shape).

    Returns the largest error and the largest share of the bound that was used: 1.0 would be just acceptable.
    """
    import torch

    if got.shape != exact.shape:
        raise CheckError(f"{name}: shape {tuple(got.shape)} instead of {tuple(exact.shape)}")
    value = got.detach().to(torch.float64)
    if not bool(torch.isfinite(value).all()):
        raise CheckError(f"{name}: {int((~torch.isfinite(value)).sum())} values are not finite")
    if not bool((exact != 0).any()):
        raise CheckError(f"{name}: the reference is zero everywhere, a comparison would prove nothing")
    error = (value - exact).abs()
    excess = error > bound
    share = float((error / bound.clamp_min(torch.finfo(torch.float64).tiny)).max())
    if bool(excess.any()):
        worst = int((error - bound).argmax())
        raise CheckError(
            f"{name}: {int(excess.sum())} of {error.numel()} values are off by more than rounding explains; "
            f"the worst is {float(value.flatten()[worst]):.6g} instead of {float(exact.flatten()[worst]):.6g} "
            f"(allowed {float(bound.flatten()[worst]):.3g})"
        )
    return {"max_error": float(error.max()), "share_of_bound": round(share, 4)}


def bf16_random(torch: Any, *shape: int, scale: float = 1.0) -> Any:
    """Normal numbers made on the CPU from a fixed seed state, rounded to bfloat16, on the GPU: the exact inputs."""
    return (torch.randn(*shape, dtype=torch.float32) * scale).to(torch.bfloat16).cuda()


def share_text(facts: dict[str, dict[str, float]]) -> str:
    """One line for a report: how much of its bound each comparison used."""
    return ", ".join(f"{name} {values['share_of_bound']:.2f}" for name, values in facts.items()) + " of the error bound"
