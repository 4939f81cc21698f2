"""Whether the GPU is one of the targets and multiplies right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orbit.smoke.kinds import numerics
from orbit.smoke.kinds.device import describe, target_of
from orbit.smoke.model import CheckError, Context

ROWS, INNER, COLUMNS = 1024, 512, 768


def check_device(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """A device is there and its compute capability is that of one of the profile's targets."""
    del parameters
    facts = describe()
    target = target_of(facts["capability"], context)
    return {
        "summary": f"{facts['device']}, {facts['capability']}, target {target.name}",
        "target": target.name,
        **facts,
    }


def check_matmul(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """bfloat16 matmul through cuBLAS. Reductions in bfloat16 (split-k) are switched off, so the bound of one holds."""
    del parameters, context
    import torch

    if not torch.cuda.is_available():
        raise CheckError("torch.cuda.is_available() is false")
    torch.manual_seed(numerics.SEED)
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    left = numerics.bf16_random(torch, ROWS, INNER)
    right = numerics.bf16_random(torch, INNER, COLUMNS)
    exact, bound = product_bound(left, right)
    facts = {"matmul": numerics.compare("bf16 matmul", left @ right, exact, bound)}
    return {"summary": numerics.share_text(facts), "compared": facts, "shape": [ROWS, INNER, COLUMNS]}


def product_bound(left: Any, right: Any, roundings: int = 1) -> tuple[Any, Any]:
    """The float64 product of two bfloat16 matrices and the error a float32-accumulating kernel may make."""
    a, b = left.double(), right.double()
    exact = a @ b
    summed = numerics.sum_bound(a.abs() @ b.abs(), a.shape[1])
    return exact, numerics.stored_bound(exact, summed, roundings)
