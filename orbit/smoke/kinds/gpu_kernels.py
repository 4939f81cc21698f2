"""Whether the kernels built or shipped outside torch compute right on this GPU, against float64."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from orbit.smoke.kinds import numerics
from orbit.smoke.kinds.gpu import product_bound
from orbit.smoke.model import Context

FAST_MATH = 2.0**-16
"""Relative error allowed to float32 formulas with fast exponentials and reciprocals. ``__expf(x)`` is off by
2 + floor(|1.16 x|) float32 steps (CUDA C++ Programming Guide, "Intrinsic Functions"): below 2^-18 for |x| < 20, and
four times that for the handful of operations around it. 256 times finer than bfloat16's own rounding."""


def check_te_linear(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Transformer Engine's Linear, forward and backward: output, and gradients of input, weight and bias.

    The output may be rounded twice (product, then bias). A gradient is one product, rounded once; the bias gradient is
    a float32 sum over the tokens.
    """
    del parameters, context
    import torch
    import transformer_engine.pytorch as te

    torch.manual_seed(numerics.SEED)
    tokens, width, out_width = 256, 512, 384
    layer = te.Linear(width, out_width, bias=True, params_dtype=torch.bfloat16, device="cuda")
    with torch.no_grad():
        layer.weight.copy_(numerics.bf16_random(torch, out_width, width, scale=width**-0.5))
        layer.bias.copy_(numerics.bf16_random(torch, out_width))
    x = numerics.bf16_random(torch, tokens, width).requires_grad_()
    grad = numerics.bf16_random(torch, tokens, out_width)
    out = layer(x)
    out.backward(grad)
    weight, bias = layer.weight.detach(), layer.bias.detach().double()
    product, rounded = product_bound(x.detach(), weight.t())
    exact = product + bias
    summed = rounded - numerics.BF16_ROUNDOFF * product.abs()
    facts = {
        "output": numerics.compare("output", out, exact, _two_roundings(product, exact, summed)),
        "input gradient": numerics.compare("input gradient", x.grad, *product_bound(grad, weight)),
        "weight gradient": numerics.compare("weight gradient", layer.weight.grad, *product_bound(grad.t(), x.detach())),
    }
    total, size = grad.double().sum(0), grad.double().abs().sum(0)
    bound = numerics.stored_bound(total, numerics.sum_bound(size, tokens))
    facts["bias gradient"] = numerics.compare("bias gradient", layer.bias.grad, total, bound)
    return {"summary": numerics.share_text(facts), "compared": facts}


def _two_roundings(product: Any, exact: Any, summed: Any) -> Any:
    """Bound of ``bf16(bf16(product) + bias)``, which also covers one rounding of the whole."""
    after_first = numerics.stored_bound(product, summed)
    return numerics.stored_bound(exact, after_first)


def check_causal_conv1d(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """causal-conv1d with SiLU, forward and backward, on bfloat16 activations and float32 weights.

    y[b,c,t] = silu(z), z = bias[c] + sum_j weight[c,j] x[b,c,t-3+j]: four products and a bias in float32, one rounding.
    """
    del parameters, context
    import torch
    from causal_conv1d import causal_conv1d_fn

    torch.manual_seed(numerics.SEED)
    batch, channels, length, taps = 2, 256, 512, 4
    x = numerics.bf16_random(torch, batch, channels, length).requires_grad_()
    weight = torch.randn(channels, taps).cuda().requires_grad_()
    bias = torch.randn(channels).cuda().requires_grad_()
    grad = numerics.bf16_random(torch, batch, channels, length)
    causal_conv1d_fn(x, weight, bias, activation="silu").backward(grad)
    out = causal_conv1d_fn(x, weight, bias, activation="silu")
    wide = [tensor.detach().double().requires_grad_() for tensor in (x, weight, bias)]
    exact = _conv_silu(torch, *wide)
    exact.backward(grad.double())
    sizes = [tensor.detach().double().abs().requires_grad_() for tensor in (x, weight, bias)]
    size = _conv(torch, *sizes)
    size.backward(1.1 * grad.double().abs())
    reduced = batch * length
    facts = {
        "output": numerics.compare(
            "output", out, exact.detach(), numerics.stored_bound(exact.detach(), FAST_MATH * size.detach())
        )
    }
    for name, got, reference, magnitude, rows, stored in (
        ("input gradient", x.grad, wide[0].grad, sizes[0].grad, taps, True),
        ("weight gradient", weight.grad, wide[1].grad, sizes[1].grad, reduced, False),
        ("bias gradient", bias.grad, wide[2].grad, sizes[2].grad, reduced, False),
    ):
        bound = numerics.sum_bound(magnitude, rows) + FAST_MATH * magnitude
        bound = numerics.stored_bound(reference, bound) if stored else bound
        facts[name] = numerics.compare(name, got, reference, bound)
    return {"summary": numerics.share_text(facts), "compared": facts}


def _conv(torch: Any, x: Any, weight: Any, bias: Any) -> Any:
    taps = weight.shape[1]
    padded = torch.nn.functional.pad(x, (taps - 1, 0))
    length = x.shape[2]
    return bias[:, None] + sum(weight[:, tap, None] * padded[:, :, tap : tap + length] for tap in range(taps))


def _conv_silu(torch: Any, x: Any, weight: Any, bias: Any) -> Any:
    z = _conv(torch, x, weight, bias)
    return z * torch.sigmoid(z)


def check_sgl_kernel(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """sgl_kernel's rmsnorm (one rounding) and silu_and_mul (SiLU is stored before the product: two roundings)."""
    del parameters, context
    import sgl_kernel
    import torch

    torch.manual_seed(numerics.SEED)
    rows, width, epsilon = 64, 2048, 1e-6
    x, weight = numerics.bf16_random(torch, rows, width), numerics.bf16_random(torch, width)
    wide = x.double()
    exact = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon) * weight.double()
    # a sum of squares has no cancellation: its relative error is width steps, and the root halves it
    before = (numerics.sum_bound(exact.abs(), width) / 2) + FAST_MATH * exact.abs()
    facts = {
        "rmsnorm": numerics.compare(
            "rmsnorm", sgl_kernel.rmsnorm(x, weight, epsilon), exact, numerics.stored_bound(exact, before)
        )
    }
    gate, up = x[:, : width // 2].double(), x[:, width // 2 :].double()
    exact = gate * torch.sigmoid(gate) * up
    bound = numerics.stored_bound(exact, FAST_MATH * exact.abs(), roundings=2)
    facts["silu_and_mul"] = numerics.compare("silu_and_mul", sgl_kernel.silu_and_mul(x), exact, bound)
    origin = os.path.basename(os.path.dirname(str(getattr(sgl_kernel.common_ops, "__file__", ""))))
    return {"summary": numerics.share_text(facts), "compared": facts, "common_ops": origin}
