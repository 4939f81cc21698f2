"""Whether Orbit's own kernels (orbit-kernels) compute right: on the GPU against float64, and importable without one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from orbit.smoke.kinds import numerics
from orbit.smoke.model import CheckError, Context

STEP = 2.0**-18
"""A row's sum of powers passes four approximate exponentials (2^-22 each) and at most 40 roundings of 2^-24, and each
exponent z is off by 5 * 2^-24 |z|: relative error of the sum below 2^-18 (1 + w), w = sum p |z|."""


def check_token_logprob(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Log-prob, entropy and gradient of bfloat16 logits from machine code for exactly this device."""
    del parameters, context
    import orbit_kernels
    import torch

    code = _machine_code(orbit_kernels, torch)
    torch.manual_seed(numerics.SEED)
    tokens, vocab, temperature = 64, 20000, 0.8
    logits = numerics.bf16_random(torch, tokens, vocab, scale=3.0)
    targets = torch.randint(0, vocab, (tokens,)).cuda()
    grads = [numerics.bf16_random(torch, tokens).float() for _ in range(2)]
    leaf = logits.clone().requires_grad_()
    found = orbit_kernels.token_logprob(leaf, targets, temperature=temperature)
    (gradient,) = torch.autograd.grad(found, leaf, grads)
    facts = _compare_scores(
        logits.double() / temperature, targets, found, gradient, grads=grads, temperature=temperature
    )
    return {"summary": numerics.share_text(facts), "compared": facts, "code": code}


def _compare_scores(
    scaled: Any, targets: Any, found: Any, gradient: Any, *, grads: list[Any], temperature: float
) -> dict[str, dict[str, float]]:
    """Against float64; bounds: docs/orbit-kernels.md. ``scaled`` are the logits over the temperature."""
    z = scaled - scaled.amax(1, keepdim=True)
    log_sum = z.exp().sum(1, keepdim=True).log()
    log_p = z - log_sum
    p = log_p.exp()
    entropy = -(p * log_p).sum(1, keepdim=True)
    far = (p * z.abs()).sum(1, keepdim=True)
    row = STEP * (1 + far)
    at = targets[:, None]
    logprob = log_p.gather(1, at)
    logprob_bound = row + numerics.FP32_STEP * (2 * z.abs().gather(1, at) + 2 * log_sum + logprob.abs())
    entropy_bound = row * (2 + far) + 8 * numerics.FP32_STEP * (p * z * z).sum(1, keepdim=True)
    a, b = (each.double()[:, None] for each in grads)
    exact = (-a * p - b * p * (log_p + entropy)).scatter_add_(1, at, a) / temperature
    size = p * (a.abs() + b.abs() * (log_p.abs() + entropy)) / temperature
    before = (
        size * (2 * row + 8 * numerics.FP32_STEP * (2 + z.abs() + log_sum)) + b.abs() * p * entropy_bound / temperature
    )
    before.scatter_add_(1, at, 4 * numerics.FP32_STEP * a.abs() / temperature)
    return {
        "log-prob": numerics.compare("log-prob", found[0], logprob[:, 0], logprob_bound[:, 0]),
        "entropy": numerics.compare("entropy", found[1], entropy[:, 0], entropy_bound[:, 0]),
        "gradient": numerics.compare("gradient", gradient, exact, numerics.stored_bound(exact, before)),
    }


def check_block_rotation(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Rotated activations and both gradients in bfloat16, of ``tokens`` times ``features`` values.

    Large enough, blocks of 32 and 128 are rotated by our kernels, of 256 always by torch's. R is float32 and rounded to
    bfloat16 first. A result is a float32 sum over a block, stored once; the gradient of R is a float32 sum over the
    tokens, so sums in bfloat16 are switched off in torch.
    """
    del context
    import orbit_kernels
    import torch
    from orbit_kernels.rotation import choose

    code = _machine_code(orbit_kernels, torch)
    tokens, features = parameters["tokens"], parameters["features"]
    torch.manual_seed(numerics.SEED)
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    facts: dict[str, dict[str, float]] = {}
    programs = {}
    for block in (32, 128, 256):
        facts |= _rotate_and_compare(orbit_kernels, torch, (tokens, features // block, block))
        programs[block] = choose("grads", block, torch.bfloat16, values=tokens * features, has_code=True).name
    return {"summary": numerics.share_text(facts), "compared": facts, "code": code, "programs": programs}


def _rotate_and_compare(orbit_kernels: Any, torch: Any, shape: tuple[int, int, int]) -> dict[str, dict[str, float]]:
    tokens, count, block = shape
    x, grad = (numerics.bf16_random(torch, tokens, count * block) for _ in range(2))
    rotation = torch.randn(count, block, block).cuda()
    leaves = x.clone().requires_grad_(), rotation.clone().requires_grad_()
    found = orbit_kernels.block_rotation(*leaves)
    gradients = torch.autograd.grad(found, leaves, grad)
    rounded = rotation.bfloat16().double()
    left, right = (each.double().view(tokens, count, block).transpose(0, 1) for each in (x, grad))
    facts = {}
    for name, got, a, b in (
        ("rotated", found, left, rounded),
        ("gradient", gradients[0], right, rounded.mT),
        ("gradient of R", gradients[1], left.mT, right),
    ):
        exact, size = a @ b, a.abs() @ b.abs()
        bound = numerics.sum_bound(size, a.shape[-1])
        if got.ndim == 2:
            exact, bound = (each.transpose(0, 1).reshape(got.shape) for each in (exact, bound))
            bound = numerics.stored_bound(exact, bound)
        label = f"{name}, b {block}"
        facts[label] = numerics.compare(label, got, exact, bound)
    return facts


def _machine_code(orbit_kernels: Any, torch: Any) -> str:
    """Architecture of the library's code on this device; raises unless it is exactly this device's."""
    image, capability = orbit_kernels.image(0), torch.cuda.get_device_capability(0)
    if image is None or image.binary_version != 10 * capability[0] + capability[1]:
        raise CheckError(f"orbit-kernels has no machine code for capability {capability}: {image}")
    return f"sm_{image.binary_version}"


def check_token_logprob_cpu(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """The CPU implementation on a distribution known by hand: softmax([0, ln 3]) = [1/4, 3/4]."""
    del parameters, context
    import orbit_kernels
    import torch

    logits = torch.tensor([[0.0, math.log(3.0)]], dtype=torch.float64, requires_grad=True)
    logprob, entropy = orbit_kernels.token_logprob(logits, torch.tensor([0]))
    logprob.sum().backward()
    expected = [math.log(0.25), 0.25 * math.log(4.0) + 0.75 * math.log(4.0 / 3.0), 0.75, -0.75]
    values = [logprob.item(), entropy.item(), *logits.grad[0].tolist()]
    if any(abs(value - right) > 1e-14 for value, right in zip(values, expected, strict=True)):
        raise CheckError(f"log-prob, entropy and gradient of a distribution known by hand: {values}, not {expected}")
    return {"summary": "log-prob, entropy and gradient as by hand", "values": values}
