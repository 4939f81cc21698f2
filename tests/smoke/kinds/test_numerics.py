"""Bounds of GPU comparisons: right rounding fits, a wrong term or one more rounding does not. Needs torch (CPU)."""

from __future__ import annotations

from typing import Any

import pytest

from orbit.smoke.kinds import numerics
from orbit.smoke.kinds.gpu import INNER, product_bound
from orbit.smoke.model import CheckError

torch: Any = pytest.importorskip("torch", reason="torch is not installed here (the stack is in the image)")


@pytest.fixture
def product() -> tuple[Any, Any, Any, Any]:
    torch.manual_seed(1)
    left = torch.randn(64, INNER).to(torch.bfloat16)
    right = torch.randn(INNER, 48).to(torch.bfloat16)
    exact, bound = product_bound(left, right)
    return left, right, exact, bound


def test_rounded_once_fits(product: tuple[Any, Any, Any, Any]) -> None:
    left, right, exact, bound = product
    facts = numerics.compare("x", (left.float() @ right.float()).to(torch.bfloat16), exact, bound)
    assert 0.3 < facts["share_of_bound"] <= 1.0


def test_one_missing_term_is_seen(product: tuple[Any, Any, Any, Any]) -> None:
    left, right, exact, bound = product
    short = left.clone()
    short[3, 7] = 0
    with pytest.raises(CheckError, match="more than rounding explains"):
        numerics.compare("x", (short.float() @ right.float()).to(torch.bfloat16), exact, bound)


def test_accumulating_in_bfloat16_is_seen(product: tuple[Any, Any, Any, Any]) -> None:
    left, right, exact, bound = product
    total = torch.zeros_like(exact).to(torch.bfloat16)
    for start in range(0, INNER, 64):
        part = left[:, start : start + 64].float() @ right[start : start + 64].float()
        total = (total.float() + part).to(torch.bfloat16)
    with pytest.raises(CheckError, match="more than rounding explains"):
        numerics.compare("x", total, exact, bound)


def test_not_finite_wrong_shape_and_empty_references(product: tuple[Any, Any, Any, Any]) -> None:
    exact, bound = product[2:]
    with pytest.raises(CheckError, match="not finite"):
        numerics.compare("x", torch.full_like(exact, float("nan")), exact, bound)
    with pytest.raises(CheckError, match="shape"):
        numerics.compare("x", exact[:1], exact, bound)
    with pytest.raises(CheckError, match="prove nothing"):
        numerics.compare("x", exact * 0, exact * 0, bound)


def test_two_roundings_have_their_own_bound(product: tuple[Any, Any, Any, Any]) -> None:
    exact = product[2]
    once, twice = numerics.stored_bound(exact, 0.0), numerics.stored_bound(exact, 0.0, roundings=2)
    assert bool((twice >= once).all())
    assert float((twice / once.clamp_min(1e-300)).max()) < 2.01
