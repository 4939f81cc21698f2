"""Implementations of the log-prob ops: the kernels of the library, the portable ones, and the shapes for tracing.

All take ``logits, targets, [tensors,] *shard``, where ``shard`` are the five values of :class:`Shard`.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import torch
from torch import Tensor

from orbit_kernels import _library, partials
from orbit_kernels._library import FLOAT, INT32, INT64, POINTER, declare

SEGMENT_BYTES = 128 * 8 * 16
"""Logits that one block of the forward kernel reads: ORBIT_LOGPROB_THREADS * ORBIT_LOGPROB_VECTORS * VECTOR_BYTES."""
VECTOR_BYTES = 16
DTYPE_CODES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
TEMPERATURES = (1e-20, 1e20)
"""Smallest and largest temperature whose inverse is well inside float32."""

FORWARD = declare(
    "orbit_token_logprob_forward",
    INT32, INT32, POINTER, INT64, INT64, INT64, POINTER, INT64, INT64, INT64, FLOAT, POINTER, INT64, POINTER, POINTER,
    POINTER, POINTER, POINTER,
)  # fmt: skip
BACKWARD = declare(
    "orbit_token_logprob_backward",
    INT32, INT32, POINTER, INT64, INT64, INT64, INT64, POINTER, INT64, INT64, INT64, FLOAT, POINTER, POINTER, POINTER,
    INT64, POINTER, INT64, POINTER, INT64, POINTER,
)  # fmt: skip

type Scores = tuple[Tensor, Tensor, Tensor]
"""Log-prob [tokens], entropy [tokens], and (largest logit, log of the sum) [2, tokens] for the backward pass."""


class Shard(NamedTuple):
    """Which distribution the logits of an op belong to."""

    temperature: float
    vocab_size: int
    """Columns that are classes; the rest of a row is padding."""
    ignore_index: int
    vocab_start: int
    """Class of column 0."""
    vocab_total: int
    """Classes of all shards together."""

    def named(self) -> dict[str, Any]:
        """What the functions of :mod:`orbit_kernels.partials` take; they get the columns without padding."""
        return {
            "temperature": self.temperature,
            "ignore_index": self.ignore_index,
            "vocab_start": self.vocab_start,
            "vocab_total": self.vocab_total,
        }


def check(logits: Tensor, targets: Tensor, shard: Shard) -> None:
    """Raise ValueError unless everything fits; says what was found and what is expected."""
    if logits.ndim != 2 or not logits.is_floating_point():
        raise ValueError(f"logits: {_shown(logits)}, expected floating point [tokens, vocab]")
    tokens, columns = logits.shape
    if columns > 1 and logits.stride(1) != 1:
        raise ValueError(f"logits: stride {logits.stride(1)} along the vocabulary, expected 1; call .contiguous()")
    if targets.ndim != 1 or targets.shape[0] != tokens or targets.dtype != torch.int64:
        raise ValueError(f"targets: {_shown(targets)}, expected torch.int64 [{tokens}]")
    if targets.device != logits.device:
        raise ValueError(f"targets: on {targets.device}, logits are on {logits.device}")
    if not 1 <= shard.vocab_size <= columns:
        raise ValueError(f"vocab_size: {shard.vocab_size}, expected 1 to {columns}, the columns of logits")
    if not TEMPERATURES[0] <= shard.temperature <= TEMPERATURES[1]:
        raise ValueError(f"temperature: {shard.temperature}, expected {TEMPERATURES[0]:g} to {TEMPERATURES[1]:g}")
    if shard.vocab_start < 0 or shard.vocab_start + shard.vocab_size > shard.vocab_total:
        end = shard.vocab_start + shard.vocab_size
        raise ValueError(f"vocab_start: classes {shard.vocab_start} to {end} of a vocabulary of {shard.vocab_total}")


def _check_rows(name: str, tensor: Tensor, logits: Tensor, *shape: int) -> None:
    if tensor.shape != shape or tensor.dtype != result_dtype(logits) or tensor.device != logits.device:
        expected = f"{result_dtype(logits)} {list(shape)} on {logits.device}"
        raise ValueError(f"{name}: {_shown(tensor)}, expected {expected}")


def _shown(tensor: Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)} on {tensor.device}"


def result_dtype(logits: Tensor) -> torch.dtype:
    """float32, or float64 for float64 logits (which only the portable functions take)."""
    return torch.float64 if logits.dtype == torch.float64 else torch.float32


def _has_kernels(logits: Tensor) -> bool:
    """Whether the library has machine code for the device; warns when the slow way is taken."""
    if _library.image(logits.device.index) is None:
        name = torch.cuda.get_device_name(logits.device)
        warnings.warn(
            f"orbit_kernels has no machine code for {name}: the float64 reference runs", RuntimeWarning, stacklevel=2
        )
        return False
    if logits.dtype not in DTYPE_CODES:
        raise ValueError(f"logits: {_shown(logits)}, expected bfloat16, float16 or float32 on CUDA")
    return True


def _stream(tensor: Tensor) -> int:
    stream: int = torch.cuda.current_stream(tensor.device).cuda_stream
    return stream


# --- log-prob and entropy ---------------------------------------------------------------------------------------------


def score_fake(logits: Tensor, targets: Tensor, *shard: Any) -> Scores:
    """Checked, uninitialised results."""
    check(logits, targets, Shard(*shard[:5]))
    return _empty_scores(logits)


def _empty_scores(logits: Tensor) -> Scores:
    tokens, dtype = logits.shape[0], result_dtype(logits)
    rows = [logits.new_empty(tokens, dtype=dtype) for _ in range(2)]
    return rows[0], rows[1], logits.new_empty((2, tokens), dtype=dtype)


def score_portable(logits: Tensor, targets: Tensor, *shard: Any) -> Scores:
    """In float64 by plain torch."""
    place = Shard(*shard[:5])
    check(logits, targets, place)
    own = partials.compute_partials(logits[:, : place.vocab_size], targets, **place.named())
    logprob, entropy, saved = partials.finish(own, targets, temperature=place[0], ignore_index=place[2])
    dtype = result_dtype(logits)
    return logprob.to(dtype), entropy.to(dtype), saved.to(dtype)


def score_cuda(logits: Tensor, targets: Tensor, *shard: Any) -> Scores:
    """By the kernels."""
    place = Shard(*shard[:5])
    check(logits, targets, place)
    if not _has_kernels(logits):
        return score_portable(logits, targets, *shard)
    scores = _empty_scores(logits)
    _launch_forward(logits, targets, place, None, *(each.data_ptr() for each in scores))
    return scores


def partials_fake(logits: Tensor, targets: Tensor, *shard: Any) -> Tensor:
    """Checked, uninitialised statistics."""
    check(logits, targets, Shard(*shard))
    return logits.new_empty((4, logits.shape[0]), dtype=result_dtype(logits))


def partials_portable(logits: Tensor, targets: Tensor, *shard: Any) -> Tensor:
    """In float64 by plain torch."""
    place = Shard(*shard)
    check(logits, targets, place)
    own = partials.compute_partials(logits[:, : place.vocab_size], targets, **place.named())
    return own.to(result_dtype(logits))


def partials_cuda(logits: Tensor, targets: Tensor, *shard: Any) -> Tensor:
    """By the kernels."""
    place = Shard(*shard)
    check(logits, targets, place)
    if not _has_kernels(logits):
        return partials_portable(logits, targets, *shard)
    stats = logits.new_empty((4, logits.shape[0]), dtype=torch.float32)
    _launch_forward(logits, targets, place, stats.data_ptr(), None, None, None)
    return stats


def _launch_forward(logits: Tensor, targets: Tensor, place: Shard, *outputs: int | None) -> None:
    tokens, size = logits.shape[0], logits.element_size()
    # as many as a row needs whose first vector begins before it: the same for every row of this width
    segments = -(-(place.vocab_size * size + VECTOR_BYTES - size) // SEGMENT_BYTES)
    work = torch.empty((tokens, segments, 4), dtype=torch.float32, device=logits.device)
    targets = targets.contiguous()
    FORWARD(
        logits.device.index, DTYPE_CODES[logits.dtype], logits.data_ptr(), tokens, place.vocab_size, logits.stride(0),
        targets.data_ptr(), place.ignore_index, place.vocab_start, place.vocab_total, place.temperature,
        work.data_ptr(), segments, *outputs, _stream(logits),
    )  # fmt: skip


def finish_any(logits: Tensor, targets: Tensor, merged: Tensor, *shard: Any) -> Scores:
    """Scores from merged statistics, on any device and for tracing; the logits are only there for their gradient."""
    place = Shard(*shard[:5])
    check(logits, targets, place)
    _check_rows("merged", merged, logits, 4, logits.shape[0])
    return partials.finish(merged, targets, temperature=place.temperature, ignore_index=place.ignore_index)


# --- gradient of the logits -------------------------------------------------------------------------------------------


def gradient_fake(logits: Tensor, targets: Tensor, *rest: Any) -> Tensor:
    """Checked, uninitialised gradient."""
    _checked_gradient(logits, targets, rest)
    return logits.new_empty(logits.shape)


def _checked_gradient(logits: Tensor, targets: Tensor, rest: tuple[Any, ...]) -> Shard:
    """``rest`` is saved, entropy, grad_logprob, grad_entropy and the five values of a shard."""
    saved, entropy, grad_logprob, grad_entropy, *shard = rest
    place = Shard(*shard)
    check(logits, targets, place)
    tokens = logits.shape[0]
    _check_rows("saved", saved, logits, 2, tokens)
    _check_rows("entropy", entropy, logits, tokens)
    for name, gradient in (("grad_logprob", grad_logprob), ("grad_entropy", grad_entropy)):
        if gradient is not None:
            _check_rows(name, gradient, logits, tokens)
    return place


def gradient_portable(logits: Tensor, targets: Tensor, *rest: Any) -> Tensor:
    """In float64 by plain torch."""
    place = _checked_gradient(logits, targets, rest)
    saved, entropy, *gradients = rest[:4]
    classes = logits[:, : place.vocab_size]
    inner = partials.logits_gradient(classes, targets, saved, entropy, tuple(gradients), **place.named())
    return torch.nn.functional.pad(inner, (0, logits.shape[1] - place.vocab_size)).to(logits.dtype)


def gradient_cuda(logits: Tensor, targets: Tensor, *rest: Any) -> Tensor:
    """By the kernels."""
    place = _checked_gradient(logits, targets, rest)
    if not _has_kernels(logits):
        return gradient_portable(logits, targets, *rest)
    gradient = logits.new_empty(logits.shape)
    _launch_backward(logits, targets, rest[:4], place, gradient)
    return gradient


def overwrite_fake(logits: Tensor, targets: Tensor, *rest: Any) -> None:
    """Checked."""
    _checked_gradient(logits, targets, rest)


def overwrite_portable(logits: Tensor, targets: Tensor, *rest: Any) -> None:
    """The gradient by plain torch, written over the logits."""
    logits.copy_(gradient_portable(logits, targets, *rest))


def overwrite_cuda(logits: Tensor, targets: Tensor, *rest: Any) -> None:
    """The gradient by the kernels, written over the logits."""
    place = _checked_gradient(logits, targets, rest)
    if not _has_kernels(logits):
        overwrite_portable(logits, targets, *rest)
        return
    _launch_backward(logits, targets, rest[:4], place, logits)
    torch.autograd.graph.increment_version(logits)


def _launch_backward(logits: Tensor, targets: Tensor, given: tuple[Any, ...], place: Shard, out: Tensor) -> None:
    saved, entropy, *gradients = given
    saved, entropy, targets = saved.contiguous(), entropy.contiguous(), targets.contiguous()
    pointers = [(None, 0) if each is None else (each.data_ptr(), each.stride(0)) for each in gradients]
    BACKWARD(
        logits.device.index, DTYPE_CODES[logits.dtype], logits.data_ptr(), *logits.shape, place.vocab_size,
        logits.stride(0), targets.data_ptr(), place.ignore_index, place.vocab_start, place.vocab_total,
        place.temperature, saved.data_ptr(), entropy.data_ptr(), *pointers[0], *pointers[1], out.data_ptr(),
        out.stride(0), _stream(logits),
    )  # fmt: skip
