"""How fast the block rotation is on a GPU: against a copy, and against the dense formulations of torch.

    python -m tests.bench.bench_block_rotation [--build | --library SO] [--sweep] [--compiled] [--json FILE]

Times are medians of CUDA graph replays of calls on several input sets (together four times the L2 cache), outputs kept:
launches cost nothing and the cache holds little. Compared, in the same run:

``einsum``   torch.einsum("tnk,nkc->tnc") and reshape, as people write it; ``compiled``: the same under torch.compile
``dense``    x @ block_diag(R) with the matrix made beforehand
``matmul``   torch.bmm on strided views, no copies (the path of large blocks)
``copy``     torch.neg of x: one read, one write
floor        the bytes that must move, over the rate of a large device-to-device copy
``--sweep``  times every sensible number of stages and of blocks on a multiprocessor instead
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.gpu.block_rotation_truth import add_source_options, load

BLOCKS = (16, 32, 64, 128, 256, 512, 1024)
SHAPES = ((8192, 4096), (8192, 8192), (8192, 11008), (2048, 4096), (1024, 4096), (512, 4096), (1, 4096))
COMPILED = (32, 128, 512)
"""Block sizes for torch.compile, which takes seconds for each."""
REPLAYS = 15


def graph_us(calls: list[Callable[[], Any]]) -> float:
    """Microseconds of one call, from replays of a graph of all ``calls``, whose results are kept."""
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in calls[:2]:
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        kept = [call() for call in calls]
    graph.replay()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(REPLAYS + 1)]
    marks[0].record()
    for mark in marks[1:]:
        graph.replay()
        mark.record()
    torch.cuda.synchronize()
    del kept
    spans = [before.elapsed_time(after) for before, after in itertools.pairwise(marks)]
    return statistics.median(spans) * 1000 / len(calls)


def copy_rate() -> float:
    """Bytes per microsecond of a large device-to-device copy, read and written bytes together."""
    import torch

    source = torch.randn(1 << 30, device="cuda")
    target = torch.empty_like(source)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(REPLAYS + 1)]
    for mark in marks:
        mark.record()
        target.copy_(source)
    torch.cuda.synchronize()
    spans = [before.elapsed_time(after) for before, after in itertools.pairwise(marks)]
    return 2 * source.nbytes / (statistics.median(spans) * 1000)


def inputs(tokens: int, width: int, block: int) -> list[tuple[Any, Any, Any]]:
    """Sets of x, dy and R in bfloat16, together well above the L2 cache."""
    import torch

    bytes_ = 4 * tokens * width + 2 * width * block
    count = min(48, max(4, -(-256 * 2**20 // bytes_)))

    def random(*shape: int) -> Any:
        return torch.randn(*shape, device="cuda").bfloat16()

    return [
        (random(tokens, width), random(tokens, width), random(width // block, block, block) * block**-0.5)
        for _ in range(count)
    ]


def einsum(x: Any, r: Any) -> Any:
    """The dense formulation over blocks."""
    import torch

    return torch.einsum("tnk,nkc->tnc", x.view(x.shape[0], r.shape[0], r.shape[1]), r).reshape(x.shape)


def dense(x: Any, matrix: Any) -> Any:
    """The dense formulation over everything."""
    return x @ matrix


def backward_calls(function: Callable[..., Any], sets: list[tuple[Any, Any, Any]]) -> list[Callable[[], Any]]:
    """Calls that run the backward pass of ``function(x, r)`` again and again."""
    import torch

    made: list[Callable[[], Any]] = []
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for x, dy, r in sets:
            leaves = x.detach().requires_grad_(), r.detach().requires_grad_()
            out = function(*leaves)
            made.append(lambda out=out, leaves=leaves, dy=dy: torch.autograd.grad(out, leaves, dy, retain_graph=True))
    torch.cuda.synchronize()
    return made


def kernel_calls(module: Any, task: str, block: int, sets: list[tuple[Any, Any, Any]]) -> list[Callable[[], Any]]:
    """Calls of our kernel also where the module would choose torch.bmm."""
    program = module.KERNELS[task, module.size_class(block)]
    if task == "rotate":
        return [lambda s=s: module._rotate_kernel(program, s[0], s[2], False) for s in sets]
    return [lambda s=s: module._backward_kernel(program, s[1], s[0], s[2], block) for s in sets]


def measure(module: Any, tokens: int, width: int, block: int, compiled: bool) -> dict[str, float]:
    """All times of one shape in microseconds."""
    import torch

    sets = inputs(tokens, width, block)
    few = sets[:4]
    matrices = [torch.block_diag(*r) for _x, _dy, r in few[:2]]
    with_matrix = [(x, dy, matrix) for (x, dy, _r), matrix in zip(few, matrices, strict=False)]
    found = {
        "forward copy": graph_us([lambda s=s: torch.neg(s[0]) for s in sets]),
        "forward": graph_us([lambda s=s: module.block_rotation(s[0], s[2]) for s in sets]),
        "backward": graph_us(backward_calls(module.block_rotation, sets)),
        "forward einsum": graph_us([lambda s=s: einsum(s[0], s[2]) for s in sets]),
        "backward einsum": graph_us(backward_calls(einsum, sets)),
        "backward kernel": graph_us(kernel_calls(module, "grads", block, sets)) if block <= 128 else math.nan,
        "forward kernel": graph_us(kernel_calls(module, "rotate", block, sets)) if block <= 128 else math.nan,
        "forward matmul": graph_us([lambda s=s: module._rotate_matmul(s[0], s[2], False) for s in sets]),
        "grad rotation": graph_us([lambda s=s: module._grad_rotation_cuda(s[1], s[0], block, False) for s in sets]),
        "grad rotation matmul": graph_us([lambda s=s: module._grad_rotation_matmul(s[1], s[0], block) for s in sets]),
        "forward dense": graph_us([lambda s=s: dense(s[0], s[2]) for s in with_matrix]),
        "backward dense": graph_us(backward_calls(dense, with_matrix)),
    }
    if compiled:
        torch.compiler.reset()
        fast = torch.compile(einsum, dynamic=False)
        found["forward compiled"] = graph_us([lambda s=s: fast(s[0], s[2]) for s in sets])
        found["backward compiled"] = graph_us(backward_calls(fast, sets))
    return found


def floors(tokens: int, width: int, block: int, rate: float) -> dict[str, float]:
    """Microseconds that moving x and y (backward: x, dy, dx), R and dR takes at the copy's rate."""
    matrix, rotation = 2 * tokens * width, 2 * width * block
    return {"forward": (2 * matrix + rotation) / rate, "backward": (3 * matrix + 2 * rotation) / rate}


def variants(module: Any, task: str, size: int, tiles: int) -> Iterator[Any]:
    """Programs whose shared memory fits, for one task and class of block sizes; 0 shares: as the module chooses."""
    multiprocessor, fixed = 228, size // 4 + (2 if task == "rotate" else 18 if task == "grads" else 2)
    stage, least, most = (16, 4, 8) if task == "rotate" else (32, 2, 5)
    shares = [each for each in (0, 2, 4, 8, 16) if each <= tiles and (each <= 8 or task == "rotate")]
    for stages in range(least, most + 1, 2 if task == "rotate" else 1):
        for resident in (1, 2) if task == "rotate" else (1,):
            if (fixed + stages * stage) * resident <= multiprocessor:
                yield from (module.Program("kernel", stages, resident, each) for each in shares)


def time_program(module: Any, task: str, block: int, program: Any, sets: list[tuple[Any, Any, Any]]) -> float:
    """Microseconds of one kernel call with the given program."""
    if task == "rotate":
        return graph_us([lambda s=s: module._rotate_kernel(program, s[0], s[2], False) for s in sets])
    return graph_us([
        lambda s=s: module._backward_kernel(program, s[1], s[0], s[2] if task == "grads" else None, block) for s in sets
    ])  # fmt: skip


def sweep(module: Any, rate: float) -> None:
    """Print the fastest programs of each task and size."""
    tasks = [(task, block) for task in ("rotate", "grads", "grad_rotation") for block in (16, 64, 128)]
    for tokens, width in (*SHAPES[:3], (512, 4096)):
        for task, block in tasks:
            size = module.size_class(block)
            if (task, size) not in module.KERNELS or width % block != 0:
                continue
            sets = inputs(tokens, width, block)
            rows = []
            for program in variants(module, task, size, -(-tokens // 64)):
                try:
                    us = time_program(module, task, block, program, sets)
                except module._library.KernelError as error:
                    print(f"{program}: {error}")
                    continue
                rows.append((us, f"{us:.1f} ({program.stages}x{program.resident} s{program.shares})"))
            floor = floors(tokens, width, block, rate)["backward" if task == "grads" else "forward"]
            text = "  ".join(text for _us, text in sorted(rows)[:7])
            print(f"{tokens}x{width} {task} b{block} floor {floor:.1f}: {text}", flush=True)


def main() -> int:
    """Measure; print a table, and JSON with every number."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_source_options(parser)
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--compiled", action="store_true", help="also torch.compile, on the first shape")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    import torch

    importlib.import_module("torch._functorch.config").donated_buffer = False  # a backward pass runs more than once
    torch.manual_seed(20)
    with tempfile.TemporaryDirectory() as temporary:
        module = load(options, temporary)
        if module is None:
            return 3
        rate = copy_rate()
        print(f"copy {rate / 1e6:.2f} TB/s")
        if options.sweep:
            sweep(module, rate)
            return 0
        rows = []
        for tokens, width in SHAPES:
            for block in BLOCKS:
                if width % block != 0:
                    continue
                times = measure(
                    module,
                    tokens,
                    width,
                    block,
                    options.compiled and (tokens, width) == SHAPES[0] and block in COMPILED,
                )
                floor = floors(tokens, width, block, rate)
                rows.append({"tokens": tokens, "width": width, "block": block, "floor": floor, **times})
                print_row(rows[-1])
        if options.json:
            options.json.write_text(json.dumps({"copy_tb_s": rate / 1e6, "rows": rows}, indent=1))
    return 0


def print_row(row: dict[str, Any]) -> None:
    """One line: ours, its share of the copy's rate, and how many times longer the others take."""
    parts = [f"{row['tokens']:5} x {row['width']:5} b {row['block']:4}"]
    for way in ("forward", "backward"):
        ours = row[way]
        others = {name.split()[1]: row[name] / ours for name in row if name.startswith(f"{way} ")}
        text = " ".join(f"{name} {ratio:.2f}x" for name, ratio in others.items())
        parts.append(f"{way} {ours:.1f} us, {100 * row['floor'][way] / ours:.0f} %, {text}")
    parts.append(f"dR {row['grad rotation']:.1f} us, matmul {row['grad rotation matmul']:.1f}")
    print(" | ".join(parts), flush=True)


if __name__ == "__main__":
    sys.exit(main())
