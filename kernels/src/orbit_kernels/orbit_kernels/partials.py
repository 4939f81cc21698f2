"""What is known of each row of a part of the vocabulary, and how parts become log-probs: plain torch, any float dtype.

With x the logits of a row, T the temperature and m = max x, a part is four numbers per token, rows of one tensor
``[4, tokens]``:

=========== ==========================================================================================
``TOP``      m, or -inf when there is nothing (all logits -inf, or the token is ignored)
``SUM``      sum exp((x - m) / T)
``WEIGHTED`` sum (x - m) / T * exp((x - m) / T), never positive
``TARGET``   logit of the target; 0 when another part of the vocabulary has it, NaN when no part has it
=========== ==========================================================================================

Parts merge in any grouping (to rounding), so tensor-parallel ranks exchange 16 bytes per token instead of logits.
These functions are the CPU implementation and the reference of the CUDA kernels (csrc/token_logprob.cu).
"""

from __future__ import annotations

import torch
from torch import Tensor

TOP, SUM, WEIGHTED, TARGET = range(4)
CHUNK_ELEMENTS = 1 << 25
"""Logits that :func:`compute_partials` widens to float64 at a time (256 MiB)."""


def compute_partials(
    logits: Tensor,
    targets: Tensor,
    *,
    temperature: float = 1.0,
    vocab_start: int = 0,
    vocab_total: int,
    ignore_index: int = -100,
) -> Tensor:
    """Partials ``[4, tokens]`` in float64 of ``logits`` ``[tokens, vocab]``; column 0 is class ``vocab_start``."""
    step = max(1, CHUNK_ELEMENTS // logits.shape[1])
    parts = [
        _of_rows(logits[at : at + step], targets[at : at + step], temperature, vocab_start, vocab_total)
        for at in range(0, max(1, logits.shape[0]), step)
    ]
    empty = logits.new_tensor([-torch.inf, 0.0, 0.0, 0.0], dtype=torch.float64)
    return torch.where(targets == ignore_index, empty[:, None], torch.cat(parts, dim=1))


def _of_rows(logits: Tensor, targets: Tensor, temperature: float, vocab_start: int, vocab_total: int) -> Tensor:
    wide = logits.double()
    top = wide.amax(1)
    shift = (wide - _finite(top)[:, None]) / temperature
    power = shift.exp()
    weighted = torch.where(shift == -torch.inf, torch.zeros_like(shift), shift * power)
    column = targets - vocab_start
    here = (column >= 0) & (column < logits.shape[1])
    target = wide.gather(1, column.clamp(0, logits.shape[1] - 1)[:, None])[:, 0]
    target = torch.where(here, target, torch.zeros_like(target))
    exists = (targets >= 0) & (targets < vocab_total)
    return torch.stack([top, power.sum(1), weighted.sum(1), target.where(exists, target.new_tensor(torch.nan))])


def merge_partials(parts: Tensor, temperature: float = 1.0) -> Tensor:
    """Partials of the whole vocabulary ``[4, tokens]`` from those of its parts ``[parts, 4, tokens]``."""
    top = parts[:, TOP].amax(0)
    shift = (parts[:, TOP] - _finite(top)) / temperature
    factor = shift.exp()
    empty = parts[:, TOP] == -torch.inf
    moved = parts[:, WEIGHTED] + torch.where(empty, torch.zeros_like(shift), shift) * parts[:, SUM]
    # a part so far below that its factor is 0 contributes nothing, whatever its shift
    weighted = torch.where(factor == 0, torch.zeros_like(moved), factor * moved)
    return torch.stack([top, (factor * parts[:, SUM]).sum(0), weighted.sum(0), parts[:, TARGET].sum(0)])


def finish(
    merged: Tensor, targets: Tensor, *, temperature: float = 1.0, ignore_index: int = -100
) -> tuple[Tensor, Tensor, Tensor]:
    """Log-prob ``[tokens]``, entropy ``[tokens]`` and, for the backward pass, ``[2, tokens]`` = (m, log of the sum).

    All are 0 for ignored tokens. A row without any finite logit has no distribution: NaN.
    """
    top, total, weighted, target = merged.unbind(0)
    log_sum = total.log()
    values = torch.stack([(target - top) / temperature - log_sum, log_sum - weighted / total, top, log_sum])
    values = torch.where(targets == ignore_index, torch.zeros_like(values), values)
    return values[0].clone(), values[1].clone(), values[2:].clone()


def logits_gradient(
    logits: Tensor,
    targets: Tensor,
    saved: Tensor,
    entropy: Tensor,
    gradients: tuple[Tensor | None, Tensor | None],
    *,
    temperature: float = 1.0,
    vocab_start: int = 0,
    vocab_total: int,
    ignore_index: int = -100,
) -> Tensor:
    """Gradient of ``logits`` ``[tokens, vocab]`` in float64, from what :func:`finish` returned.

    ``gradients`` are those of the log-prob and of the entropy, each ``[tokens]`` or None for 0. With p the
    probabilities: ``(g_logprob (1[target] - p) - g_entropy p (log p + entropy)) / T``.
    """
    zero = torch.zeros_like(entropy, dtype=torch.float64)
    of_logprob, of_entropy = (zero if each is None else each.double() for each in gradients)
    log_p = (logits.double() - saved[0].double()[:, None]) / temperature - saved[1].double()[:, None]
    p = log_p.exp()
    surprise = torch.where(log_p == -torch.inf, torch.zeros_like(p), p * (log_p + entropy.double()[:, None]))
    gradient = -of_logprob[:, None] * p - of_entropy[:, None] * surprise
    column = targets - vocab_start
    here = (column >= 0) & (column < logits.shape[1])
    hit = torch.where(here, of_logprob, zero)
    gradient.scatter_add_(1, column.clamp(0, logits.shape[1] - 1)[:, None], hit[:, None])
    exists = (targets >= 0) & (targets < vocab_total)
    gradient = torch.where(exists[:, None], gradient / temperature, gradient.new_tensor(torch.nan))
    return torch.where((targets == ignore_index)[:, None], torch.zeros_like(gradient), gradient)


def _finite(top: Tensor) -> Tensor:
    """0 in place of -inf, so that subtracting it from -inf is -inf and not NaN."""
    return torch.where(top == -torch.inf, torch.zeros_like(top), top)
