"""What :mod:`tests.gpu.slim_truth` runs in each tree: many results of one library, each as a hash of its bits.

    python -m tests.gpu.slim_battery torch|sgl|te|vision [K/N | =CASE]

Prints a JSON line for each case (``{"case": ..., "bits": sha256}``) and at last one with the libraries that are mapped
into the process. ``K/N`` runs every Nth case from the Kth on, ``=CASE`` that case alone. A case that raises has the
kind of its error for bits: it must raise the same in both trees.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

os.environ.setdefault("CUDA_DISABLE_PTX_JIT", "1")
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch

SAMPLES = 4
"""Inputs per operator and type of torch's own samples: evenly taken from all of them."""
type Cases = Iterator[tuple[str, Callable[[], Any]]]


def bits(value: Any) -> str:
    """sha256 over the bits of every tensor in ``value``, in order, with types and shapes."""
    digest = hashlib.sha256()

    def add(item: Any) -> None:
        if isinstance(item, torch.Tensor):
            if item.layout is not torch.strided:
                item = item.to_dense()
            digest.update(f"{item.dtype}{tuple(item.shape)}".encode())
            plain = item.detach().resolve_conj().resolve_neg().contiguous().cpu()
            digest.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
        elif isinstance(item, dict):
            for key in sorted(item, key=str):
                add(item[key])
        elif isinstance(item, (tuple, list)):
            for part in item:
                add(part)
        else:
            digest.update(repr(item).encode())

    add(value)
    return digest.hexdigest()


def noise(*shape: int, dtype: Any = torch.bfloat16, scale: float = 1.0) -> Any:
    """Random numbers made on the CPU, so that making them uses no library under test."""
    return (torch.randn(*shape, dtype=torch.float32) * scale).to(dtype).cuda()


def torch_cases() -> Cases:
    """Every operator torch itself has samples for, forward, and backward where it has one."""
    from torch.testing._internal.common_methods_invocations import op_db

    for op, dtype in itertools.product(op_db, (torch.float32, torch.bfloat16, torch.int64, torch.complex64)):
        if dtype not in op.supported_dtypes("cuda"):
            continue
        grad = dtype.is_floating_point and dtype in op.supported_backward_dtypes("cuda") and op.supports_autograd
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        yield (
            f"{name}:{str(dtype).removeprefix('torch.')}",
            partial(_samples, op, dtype, grad),
        )


def _samples(op: Any, dtype: Any, grad: bool) -> list[Any]:
    samples = list(op.sample_inputs("cuda", dtype, requires_grad=grad))
    found: list[Any] = []
    for sample in samples[:: max(1, len(samples) // SAMPLES)][:SAMPLES]:
        torch.manual_seed(1)
        result = op(sample.input, *sample.args, **sample.kwargs)
        found.append(result)
        if grad:
            found += _gradients(result, (sample.input, *sample.args, *sample.kwargs.values()))
    torch.cuda.synchronize()
    return found


def _gradients(result: Any, inputs: tuple[Any, ...]) -> list[Any]:
    results = result if isinstance(result, (tuple, list)) else [result]
    ends = [item for item in results if isinstance(item, torch.Tensor) and item.requires_grad]
    leaves = [item for item in _tensors(inputs) if item.requires_grad and item.is_leaf]
    if not ends or not leaves:
        return []
    total = sum(end.abs().float().sum() for end in ends)
    return list(torch.autograd.grad(total, leaves, allow_unused=True))


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)


def sgl_cases() -> Cases:
    """sglang-kernel: norms, activations, quantisation, scaled products, experts, attention."""
    import sgl_kernel as sgl
    from sgl_kernel.flash_attn import flash_attn_varlen_func

    halves = (torch.bfloat16, torch.float16)
    for dtype, width in itertools.product(halves, (1024, 4096, 8192)):
        x, w, r = noise(33, width, dtype=dtype), noise(width, dtype=dtype), noise(33, width, dtype=dtype)
        tag = f"{str(dtype)[6:]}.{width}"
        yield f"rmsnorm.{tag}", partial(sgl.rmsnorm, x, w)
        yield f"gemma_rmsnorm.{tag}", partial(sgl.gemma_rmsnorm, x, w)
        yield f"fused_add_rmsnorm.{tag}", partial(_in_place, sgl.fused_add_rmsnorm, x, r, w)
        for name in ("silu_and_mul", "gelu_and_mul", "gelu_tanh_and_mul"):
            yield f"{name}.{tag}", partial(getattr(sgl, name), x)
        yield f"per_token_quant_fp8.{tag}", partial(_quantised, sgl, x)
        yield f"fp8_scaled_mm.{tag}", partial(_fp8_product, sgl, x, dtype)
        yield f"int8_scaled_mm.{tag}", partial(_int8_product, sgl, x, dtype)
    for experts, top in ((64, 4), (256, 8)):
        gate = noise(57, experts, dtype=torch.float32)
        yield f"topk_softmax.{experts}", partial(_top_k, sgl.topk_softmax, gate, top)
        yield f"topk_sigmoid.{experts}", partial(_top_k, sgl.topk_sigmoid, gate, top)
    probabilities = torch.softmax(torch.randn(17, 32000), -1).cuda()
    yield "top_k_renorm_prob", partial(sgl.top_k_renorm_prob, probabilities, 20)
    yield "top_p_renorm_prob", partial(sgl.top_p_renorm_prob, probabilities, 0.9)
    for dtype, heads, causal in itertools.product(halves, ((16, 64), (16, 128), (8, 192), (8, 256)), (False, True)):
        yield (
            f"flash3.{str(dtype)[6:]}.{heads[1]}.{causal}",
            partial(_flash, flash_attn_varlen_func, dtype, *heads, causal),
        )


def _in_place(work: Callable[..., Any], x: Any, residual: Any, weight: Any) -> tuple[Any, Any]:
    x, residual = x.clone(), residual.clone()
    work(x, residual, weight)
    return x, residual


def _quantised(sgl: Any, x: Any) -> tuple[Any, Any]:
    out = torch.empty_like(x, dtype=torch.float8_e4m3fn)
    scales = torch.empty(x.shape[0], 1, device="cuda", dtype=torch.float32)
    sgl.sgl_per_token_quant_fp8(x, out, scales)
    return out, scales


def _fp8_product(sgl: Any, x: Any, dtype: Any) -> Any:
    a, scales = _quantised(sgl, x)
    b, by = _quantised(sgl, noise(256, x.shape[1], dtype=dtype))
    return sgl.fp8_scaled_mm(a, b.t(), scales, by, dtype)


def _int8_product(sgl: Any, x: Any, dtype: Any) -> Any:
    a = torch.randint(-128, 128, tuple(x.shape), dtype=torch.int8).cuda()
    b = torch.randint(-128, 128, (256, x.shape[1]), dtype=torch.int8).cuda().t()
    rows, columns = torch.rand(x.shape[0], 1).cuda(), torch.rand(256, 1).cuda()
    return sgl.int8_scaled_mm(a, b, rows, columns, dtype)


def _top_k(work: Callable[..., Any], gate: Any, count: int) -> tuple[Any, Any]:
    weights = torch.empty(gate.shape[0], count, device="cuda", dtype=torch.float32)
    ids = torch.empty(gate.shape[0], count, device="cuda", dtype=torch.int32)
    work(weights, ids, gate, True)
    return weights, ids


def _flash(work: Callable[..., Any], dtype: Any, heads: int, width: int, causal: bool) -> Any:
    lengths = [100, 257, 31]
    starts = torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32).cuda()
    q, k, v = (noise(sum(lengths), heads, width, dtype=dtype) for _ in range(3))
    return work(q, k, v, starts, starts, max(lengths), max(lengths), causal=causal)


def te_cases() -> Cases:
    """Transformer Engine: layers forward and backward in bfloat16 and FP8, attention, permutation, losses."""
    import transformer_engine.pytorch as te
    from transformer_engine.common.recipe import DelayedScaling, Float8CurrentScaling

    recipes: dict[str, Any] = {"bf16": None, "fp8-delayed": DelayedScaling(), "fp8-current": Float8CurrentScaling()}
    layers: dict[str, Callable[[], Any]] = {
        "Linear": lambda: te.Linear(512, 768, params_dtype=torch.bfloat16),
        "LayerNormLinear": lambda: te.LayerNormLinear(512, 768, params_dtype=torch.bfloat16),
        "LayerNormLinear.RMSNorm": lambda: te.LayerNormLinear(
            512, 768, normalization="RMSNorm", params_dtype=torch.bfloat16
        ),
        "LayerNormMLP.gelu": lambda: te.LayerNormMLP(512, 1024, params_dtype=torch.bfloat16),
        "LayerNormMLP.swiglu": lambda: te.LayerNormMLP(512, 1024, activation="swiglu", params_dtype=torch.bfloat16),
        "LayerNorm": lambda: te.LayerNorm(512, params_dtype=torch.bfloat16),
        "RMSNorm": lambda: te.RMSNorm(512, params_dtype=torch.bfloat16),
        "TransformerLayer": lambda: te.TransformerLayer(
            512, 1024, 8, hidden_dropout=0.0, attention_dropout=0.0, params_dtype=torch.bfloat16
        ),
    }
    for (kind, make), (name, recipe) in itertools.product(layers.items(), recipes.items()):
        if recipe is None or "Norm" not in kind.split(".")[0] or "Linear" in kind or "MLP" in kind:
            yield f"{kind}.{name}", partial(_layer, te, make, recipe)
    for causal, width in itertools.product((False, True), (64, 128)):
        yield f"DotProductAttention.{width}.{causal}", partial(_attention, te, causal, width)


def _layer(te: Any, make: Callable[[], Any], recipe: Any) -> list[Any]:
    torch.manual_seed(3)
    layer = make().cuda()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(noise(*parameter.shape, dtype=parameter.dtype, scale=0.05))
    x = noise(64, 4, 512).requires_grad_()
    with te.fp8_autocast(enabled=recipe is not None, fp8_recipe=recipe):
        y = layer(x)
    y.float().square().sum().backward()
    return [y, x.grad, *(parameter.grad for parameter in layer.parameters())]


def _attention(te: Any, causal: bool, width: int) -> list[Any]:
    mask = "causal" if causal else "no_mask"
    layer = te.DotProductAttention(8, width, attn_mask_type=mask, attention_dropout=0.0)
    q, k, v = (noise(128, 2, 8, width).requires_grad_() for _ in range(3))
    y = layer(q, k, v)
    y.float().square().sum().backward()
    return [y, q.grad, k.grad, v.grad]


def vision_cases() -> Cases:
    """torchvision and torchaudio: the operators that have kernels of their own."""
    import torchaudio
    import torchvision

    boxes = (torch.rand(200, 4) * 50).cuda()
    boxes[:, 2:] += boxes[:, :2] + 1
    yield "nms", partial(torchvision.ops.nms, boxes, torch.rand(200).cuda(), 0.5)
    for dtype in (torch.float32, torch.float16):
        image = noise(2, 8, 40, 40, dtype=dtype)
        regions = torch.cat([torch.zeros(200, 1).cuda(), boxes / 2], 1).to(dtype)
        for name in ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool"):
            yield (
                f"{name}.{str(dtype)[6:]}",
                partial(getattr(torchvision.ops, name), image, regions, 2),
            )
        offset = noise(2, 18, 40, 40, dtype=dtype, scale=0.5)
        weight = noise(4, 8, 3, 3, dtype=dtype)
        yield (
            f"deform_conv2d.{str(dtype)[6:]}",
            partial(torchvision.ops.deform_conv2d, image, offset, weight, padding=1),
        )
    scores = torch.log_softmax(torch.randn(1, 60, 20), -1).cuda()
    targets = torch.randint(1, 20, (1, 12), dtype=torch.int32).cuda()
    yield "forced_align", partial(torchaudio.functional.forced_align, scores, targets)


BATTERIES: dict[str, Callable[[], Cases]] = {
    "torch": torch_cases,
    "sgl": sgl_cases,
    "te": te_cases,
    "vision": vision_cases,
}


def mapped() -> list[str]:
    """Shared libraries of this process."""
    with open("/proc/self/maps", encoding="utf-8") as file:
        found = {line.split(maxsplit=5)[5].strip() for line in file if line.count("/")}
    return sorted(path for path in found if ".so" in path)


def main() -> int:
    """Run one battery."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    chosen = sys.argv[2] if len(sys.argv) > 2 else "0/1"
    only = chosen.removeprefix("=") if chosen.startswith("=") else ""
    part, parts = (0, 1) if only else map(int, chosen.split("/"))
    for case, work in itertools.islice(BATTERIES[sys.argv[1]](), part, None, parts):
        if only and case != only:
            continue
        torch.manual_seed(2)
        try:
            found = bits(work())
        except torch.AcceleratorError:
            raise  # the device is lost: nothing after it would mean anything
        except Exception as error:  # noqa: BLE001 - what fails must fail in the same way in the other tree
            found = f"raises {type(error).__name__}"
        print(json.dumps({"case": case, "bits": found}), flush=True)
    print(json.dumps({"mapped": mapped()}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
