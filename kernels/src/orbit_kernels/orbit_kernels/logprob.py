"""Log-prob of one token per row and entropy of the row's distribution, from logits, with gradients of both.

:func:`token_logprob` for a whole vocabulary, :func:`vocab_parallel_token_logprob` for one shard of it on each rank of a
tensor-parallel group. Importing this module registers the torch ops (namespace ``orbit_kernels``):

- ``token_logprob``: log-prob, entropy and what the backward pass needs; differentiable;
- ``token_logprob_partials``: statistics of a shard, see :mod:`orbit_kernels.partials`;
- ``token_logprob_finish``: log-prob and entropy from merged statistics; differentiable with respect to the shard;
- ``token_logprob_grad`` and ``token_logprob_grad_``: gradient of the logits; the second one is written over them.

On a CUDA device for which the library has machine code they are its kernels, else plain torch in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from orbit_kernels import _logprob_ops as ops
from orbit_kernels.partials import merge_partials

IGNORE_INDEX = -100


def token_logprob(
    logits: Tensor,
    targets: Tensor,
    *,
    temperature: float = 1.0,
    vocab_size: int | None = None,
    ignore_index: int = IGNORE_INDEX,
    inplace_backward: bool = False,
) -> tuple[Tensor, Tensor]:
    """Log-prob of ``targets`` and entropy, both ``[tokens]`` float32, of softmax(logits / temperature).

    ``logits`` ``[tokens, columns]`` bfloat16, float16 or float32 (float64 on CPU, with float64 results), rows at any
    distance; ``targets`` ``[tokens]`` int64. Only the first ``vocab_size`` columns are classes (default: all).

    - A token whose target is ``ignore_index`` has log-prob 0, entropy 0 and gradient 0; its logits are not read.
    - A target that is no class gives NaN for the log-prob and the gradient of that row.
    - Logits of -inf have probability 0 and gradient 0; a row with nothing else, or with NaN or +inf, gives NaN.

    ``inplace_backward``: the gradient is written over the logits, which saves their size in memory; nobody else may
    need them after the forward pass (autograd notices and raises). Not for a leaf; without effect under torch.compile.
    Second derivatives are not implemented. Raises ValueError for tensors that do not fit.
    """
    _refuse_leaf(logits, inplace_backward)
    vocab = logits.shape[-1] if vocab_size is None else vocab_size
    logprob, entropy, _saved = torch.ops.orbit_kernels.token_logprob(
        logits, targets, temperature, vocab, ignore_index, 0, vocab, inplace_backward
    )
    return logprob, entropy


def vocab_parallel_token_logprob(
    logits: Tensor,
    targets: Tensor,
    gather: Callable[[Tensor], Tensor],
    *,
    vocab_start: int,
    vocab_total: int,
    temperature: float = 1.0,
    vocab_size: int | None = None,
    ignore_index: int = IGNORE_INDEX,
    inplace_backward: bool = False,
) -> tuple[Tensor, Tensor]:
    """:func:`token_logprob` where this rank holds the columns from ``vocab_start`` on, of ``vocab_total`` classes.

    ``targets`` are classes of the whole vocabulary, the same on every rank. ``gather`` turns ``[4, tokens]`` of this
    rank into ``[ranks, 4, tokens]`` of all ranks, in one order on every rank; it is the only communication. Every rank
    returns the same result. The gradient of a rank's logits is made on that rank from the gradients of the result,
    which must be the same on every rank (a loss that is replicated over the group).
    """
    _refuse_leaf(logits, inplace_backward)
    vocab = logits.shape[-1] if vocab_size is None else vocab_size
    shard = (temperature, vocab, ignore_index, vocab_start, vocab_total)
    own = torch.ops.orbit_kernels.token_logprob_partials(logits.detach(), targets, *shard)
    merged = merge_partials(gather(own), temperature)
    logprob, entropy, _saved = torch.ops.orbit_kernels.token_logprob_finish(
        logits, targets, merged, *shard, inplace_backward
    )
    return logprob, entropy


def _refuse_leaf(logits: Tensor, inplace_backward: bool) -> None:
    if inplace_backward and logits.is_leaf and logits.requires_grad:
        raise ValueError(
            "logits: inplace_backward would overwrite a leaf with its own gradient; pass a computed tensor"
        )


# --- registration -----------------------------------------------------------------------------------------------------

SHARD = "float temperature, SymInt vocab_size, int ignore_index, SymInt vocab_start, SymInt vocab_total"
GRADIENTS = "Tensor saved, Tensor entropy, Tensor? grad_logprob, Tensor? grad_entropy"


def _setup(ctx: Any, inputs: tuple[Any, ...], output: ops.Scores) -> None:
    logits, targets, *rest = inputs
    _logprob, entropy, saved = output
    ctx.mark_non_differentiable(saved)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(logits, targets, saved, entropy)
    *ctx.shard, ctx.inplace_backward = rest[-6:]
    ctx.inputs = len(inputs)


def _backward(ctx: Any, grad_logprob: Tensor | None, grad_entropy: Tensor | None, _of_saved: None) -> tuple[Any, ...]:
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        raise RuntimeError("orbit_kernels: second derivatives of token_logprob are not implemented (create_graph=True)")
    nothing = (None,) * (ctx.inputs - 1)
    if grad_logprob is None and grad_entropy is None:
        return (None, *nothing)
    logits, *saved = ctx.saved_tensors
    given = (*saved, grad_logprob, grad_entropy, *ctx.shard)
    if ctx.inplace_backward and not torch.compiler.is_compiling():
        logits = logits.detach()
        torch.ops.orbit_kernels.token_logprob_grad_(logits, *given)
        return (logits, *nothing)
    return (torch.ops.orbit_kernels.token_logprob_grad(logits, *given), *nothing)


def _register() -> None:
    """Plain ``torch.library`` definitions: a call costs 5 to 15 us less than through ``custom_op``."""
    define(
        "token_logprob",
        f"(Tensor logits, Tensor targets, {SHARD}, bool inplace_backward) -> (Tensor, Tensor, Tensor)",
        (ops.score_cuda, ops.score_portable, ops.score_fake),
    )
    define(
        "token_logprob_partials",
        f"(Tensor logits, Tensor targets, {SHARD}) -> Tensor",
        (ops.partials_cuda, ops.partials_portable, ops.partials_fake),
    )
    define(
        "token_logprob_finish",
        f"(Tensor logits, Tensor targets, Tensor merged, {SHARD}, bool inplace_backward) -> (Tensor, Tensor, Tensor)",
        (ops.finish_any, ops.finish_any, ops.finish_any),
    )
    define(
        "token_logprob_grad",
        f"(Tensor logits, Tensor targets, {GRADIENTS}, {SHARD}) -> Tensor",
        (ops.gradient_cuda, ops.gradient_portable, ops.gradient_fake),
    )
    define(
        "token_logprob_grad_",
        f"(Tensor(a!) logits, Tensor targets, {GRADIENTS}, {SHARD}) -> ()",
        (ops.overwrite_cuda, ops.overwrite_portable, ops.overwrite_fake),
    )
    for name in ("token_logprob", "token_logprob_finish"):
        torch.library.register_autograd(f"orbit_kernels::{name}", _backward, setup_context=_setup)


def define(name: str, schema: str, implementations: tuple[Callable[..., Any], ...]) -> None:
    """Define ``orbit_kernels::name`` with its CUDA, CPU and tracing functions, in that order."""
    cuda, cpu, fake = implementations
    torch.library.define(f"orbit_kernels::{name}", schema, tags=(torch.Tag.pt2_compliant_tag,))
    torch.library.impl(f"orbit_kernels::{name}", "cuda", cuda)
    torch.library.impl(f"orbit_kernels::{name}", "cpu", cpu)
    torch.library.register_fake(f"orbit_kernels::{name}", fake)


_register()
