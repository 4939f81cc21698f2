"""causal-conv1d on a GPU against float64, element by element: forward, backward, states, packed sequences, update.

    python -m tests.gpu.causal_conv1d_truth

Needs a causal-conv1d wheel and torch with a GPU. The driver may compile nothing (CUDA_DISABLE_PTX_JIT), so what runs is
machine code of the wheel. Bounds: z is at most five terms summed in float32; SiLU and its derivative are formulas with
fast exponentials, off by FAST_MATH of the sizes of the terms (orbit/smoke/kinds/gpu_kernels.py); a gradient of weight
or bias is a float32 sum over batch and length; what is stored is rounded once.

Release 1.6.2.post1 has wrong gradients where a row's last chunk is short (``short_chunks``). Our recipe patches it
(docs/kernels-recipes.md); a wheel built by others fails here. Exit status: 0 all right, 1 a difference, 3 no GPU or no
wheel.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("CUDA_DISABLE_PTX_JIT", "1")
import torch

from orbit.smoke.kinds.gpu_kernels import FAST_MATH
from orbit.smoke.kinds.numerics import sum_bound
from tests.gpu.tally import STORED, Tally, device_line, stored

STEEPEST = 1.1
"""Largest derivative of SiLU."""


@dataclass(frozen=True)
class Case:
    """One call."""

    width: int
    dtype: Any
    weight_dtype: Any
    length: int
    last: bool
    """Channels are contiguous (``[batch, length, channels]`` in memory)."""
    silu: bool
    bias: bool = True
    packed: bool = False
    """Several sequences in a row, by ``seq_idx``."""
    states: bool = False
    """States before the first value come in, states after the last one go out, both with gradients."""
    batch: int = 2
    channels: int = 72

    def __str__(self) -> str:
        names = [name for name in ("last", "silu", "bias", "packed", "states") if getattr(self, name)]
        types = f"{self.dtype} x {self.weight_dtype}".replace("torch.", "")
        return f"width {self.width} {types} length {self.length} {' '.join(names)}"


LENGTHS = (1, 2, 7, 64, 151, 512, 1024, 1025, 2048, 4100)


def cases() -> Iterator[Case]:
    """Types, widths, layouts and options; lengths and biases take turns."""
    lengths, biases = itertools.cycle(LENGTHS), itertools.cycle((True, True, False))
    for width, dtype, last, silu in itertools.product((2, 3, 4), STORED, (False, True), (False, True)):
        for weight_dtype in dict.fromkeys((dtype, torch.float32)):
            for _turn in range(3):
                yield Case(width, dtype, weight_dtype, next(lengths), last, silu, next(biases))
            if last:
                yield Case(width, dtype, weight_dtype, next(lengths), last, silu, next(biases), packed=True)
                yield Case(width, dtype, weight_dtype, next(lengths), last, silu, next(biases), states=True)


def short_chunks() -> Iterator[Case]:
    """Rows whose last chunk has fewer values than one thread reads, in every such length.

    A block of 128 threads walks over chunks of a row, each thread with 16 bytes. The backward pass recomputes SiLU's
    argument, and for the first thread of a chunk it reads the values before the chunk one by one. The release reads no
    more of them than the chunk has values. Rows of a multiple of 16 bytes are read otherwise.
    """
    chunks = itertools.cycle((1, 2, 3))
    for width, dtype in itertools.product((2, 3, 4), STORED):
        values = 4 if dtype == torch.float32 else 8
        for rest in range(1, values):
            yield Case(width, dtype, dtype, 128 * values * next(chunks) + rest, False, True)


def activations(case: Case, length: int, last: bool) -> Any:
    """Random ``[batch, channels, length]`` in the case's type, laid out either way."""
    if last:
        return torch.randn(case.batch, length, case.channels, device="cuda").to(case.dtype).transpose(1, 2)
    return torch.randn(case.batch, case.channels, length, device="cuda").to(case.dtype)


def segments(case: Case) -> Any:
    """Number of the sequence that each position belongs to, ``[batch, length]``."""
    return (torch.rand(case.batch, case.length, device="cuda") < 0.03).cumsum(1).to(torch.int32)


def convolve(x: Any, weight: Any, bias: Any, before: Any, seq_idx: Any) -> Any:
    """z in float64: bias + sum over taps of weight times the value so many positions before."""
    width, length = weight.shape[1], x.shape[2]
    left = torch.zeros_like(x[:, :, :1]).expand(-1, -1, width - 1) if before is None else before
    line = torch.cat([left, x], 2)
    z = torch.zeros_like(x) if bias is None else bias[:, None].expand_as(x)
    for tap in range(width):
        term = weight[:, tap, None] * line[:, :, tap : tap + length]
        if seq_idx is not None:
            back = width - 1 - tap
            moved = torch.nn.functional.pad(seq_idx, (back, 0), value=-1)[:, :length]
            term = term * (moved == seq_idx)[:, None]
        z = z + term
    return z


def after(x: Any, before: Any, width: int) -> Any:
    """States after the last value: the last width - 1 values, those before the first one included."""
    return torch.cat([before, x], 2)[:, :, x.shape[2] :]


@dataclass
class Call:
    """Tensors of one case: what goes in, and the gradients of what comes out."""

    x: Any
    weight: Any
    bias: Any
    before: Any
    seq_idx: Any
    grad: Any
    grad_after: Any

    def leaves(self) -> dict[str, Any]:
        """What is differentiated."""
        named = {"x": self.x, "weight": self.weight, "bias": self.bias, "states": self.before}
        return {name: tensor for name, tensor in named.items() if tensor is not None}


def make(case: Case) -> Call:
    """Random tensors, on the GPU."""
    weight = (torch.randn(case.channels, case.width, device="cuda") / case.width).to(case.weight_dtype)
    bias = torch.randn(case.channels, device="cuda").to(case.weight_dtype) if case.bias else None
    before = activations(case, case.width - 1, True) if case.states else None
    grad_after = activations(case, case.width - 1, True) if case.states else None
    x, grad = (activations(case, case.length, case.last) for _ in range(2))
    call = Call(x, weight, bias, before, segments(case) if case.packed else None, grad, grad_after)
    for tensor in call.leaves().values():
        tensor.requires_grad_()
    return call


def truth(call: Call, silu: bool, *, sizes: bool) -> tuple[Any, Any, dict[str, Any]]:
    """Output, states after it and gradients in float64; with ``sizes`` those of all terms' absolute values."""
    wide = {name: tensor.detach().double() for name, tensor in call.leaves().items()}
    grad = call.grad.double()
    grad_after = None if call.grad_after is None else call.grad_after.double()
    if sizes:
        wide = {name: tensor.abs() for name, tensor in wide.items()}
        grad = grad.abs() * (STEEPEST if silu else 1.0)
        grad_after = None if grad_after is None else grad_after.abs()
    for tensor in wide.values():
        tensor.requires_grad_()
    x, before = wide["x"], wide.get("states")
    out = convolve(x, wide["weight"], wide.get("bias"), before, call.seq_idx)
    if silu and not sizes:
        out = torch.nn.functional.silu(out)
    outputs, grads, states = [out], [grad], None
    if before is not None:
        states = after(x, before, wide["weight"].shape[1])
        outputs, grads = [out, states], [grad, grad_after]
    found = torch.autograd.grad(outputs, list(wide.values()), grads)
    return out.detach(), states, dict(zip(wide, found, strict=True))


def check(case: Case, tally: Tally) -> None:
    """One case, forward and backward."""
    from causal_conv1d import causal_conv1d_fn

    call = make(case)
    activation = "silu" if case.silu else None
    got = causal_conv1d_fn(call.x, call.weight, call.bias, call.seq_idx, call.before, case.states, None, activation)
    outputs, grads = ([*got], [call.grad, call.grad_after]) if case.states else ([got], [call.grad])
    leaves = call.leaves()
    found = dict(zip(leaves, torch.autograd.grad(outputs, list(leaves.values()), grads), strict=True))
    out, states, exact = truth(call, case.silu, sizes=False)
    size, _states, magnitude = truth(call, case.silu, sizes=True)
    kind = str(case.dtype).removeprefix("torch.")
    tally.compare(f"output {kind}", str(case), outputs[0], out, stored(out, FAST_MATH * size, case.dtype))
    if case.states:
        tally.check(f"states {case}", torch.equal(outputs[1].double(), states))
    for name, value in found.items():
        length = case.batch * case.length if name in ("weight", "bias") else case.width + 1
        before = sum_bound(magnitude[name], length) + FAST_MATH * magnitude[name]
        bound = stored(exact[name], before, leaves[name].dtype)
        tally.compare(f"gradient of {name} {kind}", str(case), value, exact[name], bound)


def ring(lengths: Any, first: int, last: int, channels: int, state_length: int) -> Any:
    """Where the values ``first`` to ``last`` from here are in a ring, for every row and channel."""
    places = (torch.arange(first, last, device="cuda") + lengths[:, None]) % state_length
    return places[:, None].expand(-1, channels, -1)


def check_update(width: int, dtype: Any, length: int, state_length: int, way: str, tally: Tally) -> None:
    """One step of generation: the output and the state, which is a row, a ring, or rows chosen by index."""
    from causal_conv1d import causal_conv1d_update

    batch, channels = 3, 72
    x = torch.randn(batch, channels, length, device="cuda").to(dtype)
    store = torch.randn(batch + (4 if way == "indexed" else 0), channels, state_length, device="cuda").to(dtype)
    weight = (torch.randn(channels, width, device="cuda") / width).to(dtype)
    bias = torch.randn(channels, device="cuda").to(dtype)
    rows = torch.tensor([5, 0, 3], device="cuda") if way == "indexed" else torch.arange(batch, device="cuda")
    lengths = torch.tensor([0, 1, state_length + 3], device="cuda", dtype=torch.int32) if way == "ring" else None
    state = store[rows].double()
    if lengths is None:
        line = torch.cat([state, x.double()], 2)
        before, left = state[:, :, state_length - (width - 1) :], line[:, :, -state_length:]
    else:
        before = state.gather(2, ring(lengths, 1 - width, 0, channels, state_length))
        left = state.scatter(2, ring(lengths, 0, length, channels, state_length), x.double())
    expected = store.double().index_copy(0, rows, left)
    wide = (x.double(), weight.double(), bias.double(), before)
    exact, size = torch.nn.functional.silu(convolve(*wide, None)), convolve(*(each.abs() for each in wide), None)
    indices = rows.to(torch.int32) if way == "indexed" else None
    got = causal_conv1d_update(x, store, weight, bias, "silu", cache_seqlens=lengths, conv_state_indices=indices)
    where = f"width {width} {dtype} {length} values, state of {state_length}, {way}"
    kind = str(dtype).removeprefix("torch.")
    tally.compare(f"update {kind}", where, got, exact, stored(exact, FAST_MATH * size, dtype))
    tally.check(f"state {where}", torch.equal(store.double(), expected))


def main() -> int:
    """Run everything."""
    if not torch.cuda.is_available():
        print("no CUDA device")
        return 3
    try:
        import causal_conv1d
    except ImportError as error:
        print(f"causal-conv1d cannot be imported: {error}")
        return 3
    print(f"{device_line()}, causal-conv1d {causal_conv1d.__version__}", flush=True)
    torch.manual_seed(20)
    tally, done = Tally(), [*cases(), *short_chunks()]
    for case in done:
        check(case, tally)
    updates = list(itertools.product((2, 3, 4), STORED, (1, 3), (4, 9), ("row", "ring", "indexed")))
    for width, dtype, length, state_length, way in updates:
        check_update(width, dtype, length, state_length, way, tally)
    torch.cuda.synchronize()
    print(f"{len(done)} cases forward and backward, {len(updates)} updates")
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
