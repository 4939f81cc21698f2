"""The operations of each path: torch's own attention, and the kernels an image ships in place of the plain ones."""

from __future__ import annotations

import importlib
import importlib.util
from functools import partial
from typing import Any

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from orbit.qualify.paths import Path
from orbit.qualify.records import Settings
from orbit.qualify.stack.network import EPSILON, Ops
from orbit.qualify.stack.recorder import Recorder

type Tensor = Any
BACKENDS = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}


def missing(path: Path) -> str:
    """Why a path cannot run here; empty when it can. A module that is there and does not import is no such reason."""
    if not path.module:
        return ""
    try:
        found = importlib.util.find_spec(path.module.partition(".")[0])
    except (ImportError, ValueError):
        found = None
    return "" if found else f"{path.module} is not installed"


def ops_of(path: Path, settings: Settings, dtype: Any, device: str) -> Ops:
    """The operations of ``path``. Raises whatever importing its kernels raises."""
    if path.name == "sdpa":
        return Ops(attention=partial(_sdpa, BACKENDS[_backend(settings, dtype, device)]))
    if path.name == "sgl-kernel":
        return _sgl_kernel()
    if path.name == "orbit-kernels":
        return _orbit_kernels()
    if path.name == "transformer-engine":
        return _transformer_engine()
    if path.name == "causal-conv1d":
        return _causal_conv1d()
    return Ops()


def _backend(settings: Settings, dtype: Any, device: str) -> str:
    if settings.attention != "pinned":
        return settings.attention
    if device == "cpu":
        return "math"
    return "efficient" if dtype == torch.float32 else "flash"


def _sdpa(backend: Any, rec: Recorder, name: str, heads: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    with sdpa_kernel(backend):
        return rec.run("sdpa", name, partial(functional.scaled_dot_product_attention, is_causal=True), *heads)


def _sgl_kernel() -> Ops:
    sgl = importlib.import_module("sgl_kernel")

    def norm(x: Tensor, weight: Tensor) -> Tensor:
        return sgl.rmsnorm(x.reshape(-1, x.shape[-1]).contiguous(), weight, EPSILON).view_as(x)

    def silu(x: Tensor) -> Tensor:
        flat = x.reshape(-1, x.shape[-1]).contiguous()
        return sgl.silu_and_mul(flat).unflatten(0, x.shape[:-1])

    return Ops(norm=norm, silu=silu)


def _orbit_kernels() -> Ops:
    kernels = importlib.import_module("orbit_kernels")
    return Ops(logprob=lambda logits, targets: kernels.token_logprob(logits, targets)[0])


def _transformer_engine() -> Ops:
    te = importlib.import_module("transformer_engine.pytorch")

    def linear(x: Tensor, weight: Tensor) -> Tensor:
        layer = te.Linear(weight.shape[1], weight.shape[0], bias=False, params_dtype=x.dtype, device="cuda")
        return _with_weight(layer, weight)(x)

    return Ops(norm=_TransformerEngineNorm.apply, linear=linear)


class _TransformerEngineNorm(torch.autograd.Function):  # type: ignore[misc]
    """Transformer Engine's RMSNorm kernels as a function of input and weight; its module owns its weight."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        kernels = importlib.import_module("transformer_engine_torch")
        kind = importlib.import_module("transformer_engine.pytorch.constants").TE_DType[x.dtype]
        flat = x.reshape(-1, x.shape[-1]).contiguous()
        y, _mean, scale = kernels.rmsnorm_fwd(flat, weight, EPSILON, None, None, kind, 0, False)
        ctx.save_for_backward(flat, weight, scale)
        return y.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        kernels = importlib.import_module("transformer_engine_torch")
        flat, weight, scale = ctx.saved_tensors
        dx, dw = kernels.rmsnorm_bwd(grad.reshape(flat.shape).contiguous(), flat, scale, weight, 0, False)
        return dx.view_as(grad), dw


def _with_weight(layer: Any, weight: Tensor) -> Any:
    """The layer with our tensor as its weight: no parameter of its own, so that gradients come to ours."""
    del layer.weight
    layer.weight = weight
    return layer


def _causal_conv1d() -> Ops:
    function = importlib.import_module("causal_conv1d").causal_conv1d_fn

    def conv(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return function(x.transpose(1, 2).contiguous(), weight, bias, activation="silu").transpose(1, 2)

    return Ops(conv=conv)
