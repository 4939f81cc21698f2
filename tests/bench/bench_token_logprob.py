"""Time, bytes and memory of log-prob + entropy from logits: orbit_kernels, torch, and the kernels of others.

    python -m tests.bench.bench_token_logprob [--build | --library SO] [--json FILE] [--shapes 64x151936,...]

Times are GPU times of one call: a CUDA graph of calls on different buffers (together larger than the L2 cache), median
of the replays; what cannot be captured is timed by events around single calls, marked *. The copy bandwidth
is that of ``Tensor.copy_`` on 4 GiB, bytes read plus bytes written, in the same run. Needs a GPU; Liger Kernel and
flash-attn's ``cross_entropy.py`` (on PYTHONPATH as ``flash_cross_entropy``) are compared where they can be imported.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

SHAPES = [(t, v) for v in (151936, 128256, 32000) for t in (64, 1024, 8192, 16384)]
COMPILED = {(64, 151936), (1024, 151936), (8192, 151936)}
"""Shapes for torch.compile, which takes half a minute for each."""
BUFFER_BYTES = 1 << 29
"""Buffers of a shape are together at least this large: several times the L2 cache."""
MOST_BUFFERS, REPLAYS = 32, 15
NOT_CAPTURED = {"liger cross entropy"}
"""Waits for the device in the middle (``.item()``), which no graph can hold."""

type Step = Callable[[Any, Any, tuple[Any, Any], bool], Any]
"""logits, targets, gradients of (log-prob, entropy), backward too."""


def with_gradient(function: Callable[[Any, Any], tuple[Any, ...]]) -> Step:
    """A step from a differentiable function."""

    def step(logits: Any, targets: Any, grads: tuple[Any, Any], backward: bool) -> Any:
        if not backward:
            with torch.no_grad():
                return function(logits, targets)
        leaf = logits.detach().requires_grad_()
        results = function(leaf, targets)
        return torch.autograd.grad(results, leaf, [g.to(r.dtype) for g, r in zip(grads, results, strict=False)])

    return step


def eager(logits: Any, targets: Any) -> tuple[Any, Any]:
    """As it is usually written, in float32."""
    log_p = torch.log_softmax(logits.float(), -1)
    return log_p.gather(1, targets[:, None])[:, 0], -(log_p.exp() * log_p).sum(-1)


def ours(logits: Any, targets: Any) -> tuple[Any, Any]:
    """The op."""
    import orbit_kernels

    return orbit_kernels.token_logprob(logits, targets)  # type: ignore[no-any-return]


def ours_in_place(logits: Any, targets: Any, grads: tuple[Any, Any], backward: bool) -> Any:
    """The op, gradient written over the logits (so every step but the first has other logits)."""
    import orbit_kernels

    leaf = logits.detach().requires_grad_().view_as(logits)
    results = orbit_kernels.token_logprob(leaf, targets, inplace_backward=True)
    return torch.autograd.grad(results, leaf, grads) if backward else results


def raw_backward(logits: Any, targets: Any, saved: tuple[Any, ...], backward: bool) -> Any:
    """The backward kernel alone; ``saved`` = (saved, entropy, grad_logprob, grad_entropy)."""
    del backward
    vocab = logits.shape[1]
    return torch.ops.orbit_kernels.token_logprob_grad(logits, targets, *saved, 1.0, vocab, -100, 0, vocab)


def peers() -> dict[str, tuple[Step, str]]:
    """Name -> (step, what it computes) of others' kernels that are installed."""
    found: dict[str, tuple[Step, str]] = {}
    try:
        liger = importlib.import_module("liger_kernel.ops.cross_entropy").LigerCrossEntropyFunction
        selective = importlib.import_module("liger_kernel.ops.grpo_loss")._selective_log_softmax_kernel
    except ImportError as error:
        print(f"liger-kernel: skipped ({error})")
    else:

        def liger_loss(logits: Any, targets: Any) -> tuple[Any, ...]:
            return (liger.apply(logits, targets, None, -100, 0.0, 0.0, "none")[0],)

        def liger_selective(logits: Any, targets: Any, _grads: Any, _backward: bool) -> Any:
            tokens, vocab = logits.shape
            out = torch.zeros(tokens, dtype=torch.float32, device=logits.device)
            selective[(1, tokens)](
                logits.view(1, tokens, vocab), targets[None], out, None, 1.0, 0, 1, 0, 0, tokens, vocab,
                BLOCK_N=2048, num_stages=4, num_warps=1,
            )  # fmt: skip
            return out

        found["liger cross entropy"] = (with_gradient(liger_loss), "log-prob in bf16; gradient over the logits")
        found["liger selective"] = (liger_selective, "log-prob, forward only")
    try:
        flash = importlib.import_module("flash_cross_entropy").cross_entropy_loss
    except ImportError as error:
        print(f"flash-attn cross entropy: skipped ({error})")
    else:
        found["flash-attn cross entropy"] = (with_gradient(lambda x, t: flash(x, t)[:1]), "log-prob")
    return found


class Buffers:
    """Random logits of one shape, several times, with targets and gradients."""

    def __init__(self, tokens: int, vocab: int) -> None:
        size = tokens * vocab * 2
        count = max(1, min(MOST_BUFFERS, -(-BUFFER_BYTES // size)))
        self.bytes = size
        self.logits = [torch.randn(tokens, vocab, device="cuda", dtype=torch.bfloat16) * 3 for _ in range(count)]
        self.targets = torch.randint(0, vocab, (tokens,), device="cuda")
        self.grads = (torch.randn(tokens, device="cuda"), torch.randn(tokens, device="cuda"))


def graph_us(call: Callable[[Any], Any], buffers: list[Any]) -> float:
    """Microseconds of one call, from replays of a graph of calls on all buffers."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            call(buffers[0])
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for each in buffers:
            call(each)
    return events_us(graph.replay) / len(buffers)


def events_us(call: Callable[[], Any], repeats: int = REPLAYS) -> float:
    """Median microseconds between events around a call."""
    times = []
    for index in range(repeats + 3):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        end.synchronize()
        if index >= 3:
            times.append(start.elapsed_time(end) * 1000)
    return statistics.median(times)


def timed(name: str, step: Step, buffers: Buffers, backward: bool) -> tuple[float, bool]:
    """(microseconds, from a graph)."""

    def call(logits: Any) -> Any:
        return step(logits, buffers.targets, buffers.grads, backward)

    if name in NOT_CAPTURED:
        return events_us(lambda: call(buffers.logits[0])), False
    return graph_us(call, buffers.logits), True


def peak_bytes(step: Step, buffers: Buffers, backward: bool) -> int:
    """Memory that one step needs beside its inputs."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step(buffers.logits[0], buffers.targets, buffers.grads, backward)
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def copy_rate() -> float:
    """Bytes per microsecond that Tensor.copy_ reads and writes."""
    source = torch.randn(1 << 31, device="cuda", dtype=torch.bfloat16)
    dest = torch.empty_like(source)
    return 2 * source.numel() * 2 / events_us(lambda: dest.copy_(source))


def steps_for(shape: tuple[int, int]) -> dict[str, tuple[Step, str]]:
    """What is measured on a shape."""
    both = "log-prob and entropy"
    chosen: dict[str, tuple[Step, str]] = {
        "orbit": (with_gradient(ours), both),
        "orbit in place": (ours_in_place, both),
        "torch eager": (with_gradient(eager), both),
    }
    if shape in COMPILED:
        chosen["torch.compile"] = (with_gradient(torch.compile(eager, dynamic=False)), both)
    return {**chosen, **peers()}


def measure(shape: tuple[int, int], rate: float) -> list[dict[str, Any]]:
    """Rows of the table for one shape, printed as they come."""
    rows = []
    for name, (step, what) in steps_for(shape).items():
        buffers = Buffers(*shape)
        row: dict[str, Any] = {"tokens": shape[0], "vocab": shape[1], "name": name, "computes": what}
        passes = [False] if name == "liger selective" else [True] if name == "orbit in place" else [False, True]
        for backward in passes:
            key = "step" if backward else "forward"
            row[f"{key}_us"], row[f"{key}_graph"] = timed(name, step, buffers, backward)
            row[f"{key}_extra_bytes"] = peak_bytes(step, buffers, backward)
            floor = (3 if backward else 1) * buffers.bytes / rate
            row[f"{key}_share_of_copy"] = floor / row[f"{key}_us"]
        if name == "orbit":
            row |= backward_alone(buffers, rate)
        rows.append(row)
        print(shown(row), flush=True)
        del buffers
        gc.collect()
        torch.cuda.empty_cache()
    return rows


def backward_alone(buffers: Buffers, rate: float) -> dict[str, float]:
    """The gradient kernel by itself: one read and one write."""
    vocab = buffers.logits[0].shape[1]
    scores = torch.ops.orbit_kernels.token_logprob(
        buffers.logits[0], buffers.targets, 1.0, vocab, -100, 0, vocab, False
    )
    saved = (scores[2], scores[1], *buffers.grads)
    found = graph_us(lambda each: raw_backward(each, buffers.targets, saved, True), buffers.logits)
    only = (scores[2], scores[1], buffers.grads[0], None)
    without = graph_us(lambda each: raw_backward(each, buffers.targets, only, True), buffers.logits)
    return {
        "backward_us": found,
        "backward_share_of_copy": 2 * buffers.bytes / rate / found,
        "backward_without_entropy_us": without,
    }


def shown(row: dict[str, Any]) -> str:
    """One line."""
    parts = [f"{row['tokens']:>6} x {row['vocab']:<7} {row['name']:<25}"]
    for key in ("forward", "step"):
        if f"{key}_us" in row:
            star = "" if row[f"{key}_graph"] else "*"
            parts.append(
                f"{key} {row[f'{key}_us']:9.1f}{star or ' '} us {100 * row[f'{key}_share_of_copy']:5.1f} % "
                f"+{row[f'{key}_extra_bytes'] / 2**20:8.1f} MiB"
            )
    if "backward_us" in row:
        parts.append(
            f"backward {row['backward_us']:9.1f} us {100 * row['backward_share_of_copy']:5.1f} % "
            f"(no entropy {row['backward_without_entropy_us']:.1f} us)"
        )
    return "  ".join(parts)


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", action="store_true", help="compile the source tree with nvcc")
    parser.add_argument("--library", type=Path, help="use this shared object with the source tree's Python files")
    parser.add_argument("--json", type=Path, help="write all numbers here")
    parser.add_argument("--shapes", help="like 64x151936,8192x32000")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("no CUDA device")
        return 3
    shapes = [tuple(map(int, each.split("x"))) for each in options.shapes.split(",")] if options.shapes else SHAPES
    with tempfile.TemporaryDirectory() as folder:
        if options.build or options.library:
            from tests.orbit_kernels.stage import stage

            stage(Path(folder), options.library)
        rate = copy_rate()
        print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}: copy {rate / 1e6:.3f} TB/s")
        rows = [row for shape in shapes for row in measure(shape, rate)]
        again = copy_rate()
        print(f"copy again {again / 1e6:.3f} TB/s")
    if options.json:
        options.json.write_text(json.dumps({"copy_tb_s": [rate / 1e6, again / 1e6], "rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
