"""Every block rotation kernel against float64 on a GPU: both instruction sets, odd shapes and strides, twice.

    python -m tests.gpu.block_rotation_truth                 an installed orbit-kernels wheel
    python -m tests.gpu.block_rotation_truth --build         compiles the source tree with nvcc first
    python -m tests.gpu.block_rotation_truth --library SO    this library with the source tree's Python files
    ... --quick                                              few small shapes, for compute-sanitizer

Each case: rotation, its transpose, both gradients in one pass, and the gradient of R alone, on fresh random inputs into
memory that was filled with NaN; a second run must give the same bits; so must the replay of a CUDA graph and
torch.compile, and torch.library.opcheck must pass. Bounds are those of orbit/smoke/kinds/numerics.py: a float32 sum of
k exact products is off by at most k 2^-23 sum |a b|; storing adds one rounding of the stored type. Exit status: 0 all
right, 1 a difference, 3 no GPU that the library has code for.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orbit.smoke.kinds import numerics
from orbit.smoke.model import CheckError

STORED = {"bfloat16": (numerics.BF16_ROUNDOFF, 0.0), "float16": (2.0**-11, 2.0**-25)}
"""Type -> relative rounding error, and the absolute one below the smallest normal number."""


@dataclass(frozen=True)
class Case:
    """One shape and how its tensors lie in memory."""

    tokens: int
    blocks: int
    block: int
    dtype: str = "bfloat16"
    rotation: str = "float32"
    shared: bool = False
    gap: int = 0
    """Values between rows."""
    offset: int = 0
    """Values before the first row; not a multiple of 8: not aligned."""
    way: str = "chosen"
    """``chosen``: by the module; ``kernel``: our kernels at any size; ``portable``: those with mma.sync."""


def cases(quick: bool) -> Iterator[Case]:
    """What is run; the quick ones meet every kernel, several tiles in a share and several column groups."""
    sizes = (8, 16, 32, 64, 128)
    for block in sizes:
        base = Case(150, 3, block)
        yield replace(base, way="kernel")
        yield replace(base, way="portable")
    if quick:
        yield Case(70, 2, 512)
        return
    for block in (*sizes, 256, 384, 512, 1024, 4, 48):
        count = max(1, 1024 // block)
        for way in ("kernel", "portable", "chosen") if block in sizes else ("chosen",):
            yield Case(2048 + 37, count, block, way=way, rotation="bfloat16")
            yield Case(1, count, block, way=way)
            yield Case(64, count, block, way=way, dtype="float16", rotation="float16")
            yield Case(777, count + 1, block, way=way, shared=True, gap=24)
    for block in (32, 128):
        yield Case(300, 5, block, gap=3, offset=1, way="kernel")
        yield Case(40000, 4, block, rotation="bfloat16", way="kernel")
        yield Case(8192, 4096 // block, block)


def make(case: Case) -> tuple[Any, Any, Any]:
    """x, dy and R of a case, on the GPU."""
    import torch

    width, pitch = case.blocks * case.block, case.blocks * case.block + case.gap
    dtype = getattr(torch, case.dtype)

    def matrix() -> Any:
        flat = torch.randn(case.offset + case.tokens * pitch, device="cuda").to(dtype)
        return flat[case.offset :].view(case.tokens, pitch)[:, :width]

    count = 1 if case.shared else case.blocks
    rotation = torch.randn(count, case.block, case.block, device="cuda").to(getattr(torch, case.rotation))
    return matrix(), matrix(), rotation


def poison(bytes_: int) -> None:
    """Fill what the allocator hands out next with NaN, so that a value nobody writes is seen."""
    import torch

    kept = [torch.full((size,), torch.nan, device="cuda") for size in (bytes_ // 2, bytes_ // 4, bytes_ // 4, 4096, 64)]
    del kept


def run(module: Any, case: Case, x: Any, dy: Any, r: Any) -> dict[str, Any]:
    """All results of one case, by name; by the kernels directly when mma.sync is asked for."""
    ops = module.torch.ops.orbit_kernels
    poison(4 * x.numel() * x.element_size())
    if case.way == "chosen":
        dx, dr = ops.block_rotation_grads(dy, x, r)
        alone = ops.block_rotation_grad_rotation(dy, x, case.block, case.shared)
        return {"y": ops.block_rotation(x, r, False), "y of R^T": ops.block_rotation(x, r, True), "dx": dx, "dR": dr,
                "dR alone": alone}  # fmt: skip
    tasks = ("rotate", "grads", "grad_rotation")
    programs = {task: module.KERNELS.get((task, module.size_class(case.block))) for task in tasks}
    found, portable = {}, case.way == "portable"
    if programs["rotate"] is not None:
        found["y"] = module._rotate_kernel(programs["rotate"], x, r, False, portable=portable)
        found["y of R^T"] = module._rotate_kernel(programs["rotate"], x, r, True, portable=portable)
    count = 1 if case.shared else case.blocks
    if programs["grads"] is not None:
        dx, dr = module._backward_kernel(programs["grads"], dy, x, r, case.block, portable=portable)
        found |= {"dx": dx, "dR": module._shared_sum(dr, count)}
    if programs["grad_rotation"] is not None:
        _none, dr = module._backward_kernel(programs["grad_rotation"], dy, x, None, case.block, portable=portable)
        found["dR alone"] = module._shared_sum(dr, count)
    return found


def expected(case: Case, x: Any, dy: Any, r: Any) -> dict[str, tuple[Any, Any]]:
    """Result -> its float64 value and how far a correct kernel may be from it."""
    import torch

    roundoff, floor = STORED[case.dtype]
    wide_x, wide_dy, wide_r = x.double(), dy.double(), r.to(x.dtype).double()

    def blocks(value: Any) -> Any:
        return value.reshape(case.tokens, case.blocks, case.block).transpose(0, 1)

    def rotated(value: Any, rotation: Any) -> tuple[Any, Any]:
        rotation = rotation.expand(case.blocks, case.block, case.block)
        exact, size = ((blocks(a) @ b).transpose(0, 1).reshape(x.shape)
                       for a, b in ((value, rotation), (value.abs(), rotation.abs())))  # fmt: skip
        summed = numerics.sum_bound(size, case.block)
        return exact, summed + roundoff * (exact.abs() + summed) + floor

    exact, size = (torch.bmm(blocks(a).mT, blocks(b)) for a, b in ((wide_x, wide_dy), (wide_x.abs(), wide_dy.abs())))
    length = case.tokens
    if case.shared:
        exact, size, length = exact.sum(0, keepdim=True), size.sum(0, keepdim=True), length * case.blocks
    gradient = exact, numerics.sum_bound(size, length)
    back = rotated(wide_dy, wide_r.mT)
    return {"y": rotated(wide_x, wide_r), "y of R^T": rotated(wide_x, wide_r.mT), "dx": back, "dR": gradient,
            "dR alone": gradient}  # fmt: skip


def check(module: Any, case: Case) -> tuple[dict[str, float], list[str]]:
    """Share of the bound that each result used, and what is wrong."""
    import torch

    x, dy, r = make(case)
    exact = expected(case, x, dy, r)
    shares, wrong = {}, []
    first = run(module, case, x, dy, r)
    again = run(module, case, x, dy, r)
    for name, value in first.items():
        try:
            shares[name] = numerics.compare(name, value, *exact[name])["share_of_bound"]
        except CheckError as error:
            wrong.append(f"{case}: {error}")
        if not torch.equal(value, again[name]):
            wrong.append(f"{case}: {name} differs between two runs")
    return shares, wrong


def check_graph(module: Any) -> list[str]:
    """What a captured and replayed call of each op makes of new inputs in the same place, against an ordinary call."""
    import torch

    wrong = []
    for block in (32, 128, 512):
        x, dy, r = make(Case(70000, 4, block))  # so many that our kernels are chosen
        calls = {
            "y": lambda x=x, r=r: [module.block_rotation(x, r)],
            "gradients": lambda x=x, dy=dy, r=r: module.torch.ops.orbit_kernels.block_rotation_grads(dy, x, r),
        }
        for name, call in calls.items():
            call()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                captured = call()
            for each in (x, dy, r):
                each.copy_(torch.randn_like(each))
            graph.replay()
            if not all(torch.equal(a, b) for a, b in zip(captured, call(), strict=True)):
                wrong.append(f"b {block}: {name} of a replayed graph differ")
    return wrong


def check_registrations(module: Any) -> list[str]:
    """torch.library.opcheck of the three ops, and torch.compile of a loss against eager: the same bits."""
    import torch

    ops, wrong = module.torch.ops.orbit_kernels, []
    for block, tokens in ((32, 70000), (128, 70000), (64, 50), (512, 300)):  # both programs, two sizes of each
        x, dy, r = make(Case(tokens, 1024 // block, block))
        calls = {
            "block_rotation": (x, r, False),
            "block_rotation_grads": (dy, x, r),
            "block_rotation_grad_rotation": (dy, x, block, False),
        }
        for name, arguments in calls.items():
            given = tuple(each.clone().requires_grad_() if torch.is_tensor(each) else each for each in arguments)
            result = torch.library.opcheck(getattr(ops, name).default, given)
            if set(result.values()) != {"SUCCESS"}:
                wrong.append(f"b {block}: opcheck of {name}: {result}")

        def loss(x: Any, r: Any, dy: Any = dy) -> Any:
            return (module.block_rotation(x * 2, r) * dy).float().sum()

        pairs = [(x.clone().requires_grad_(), r.clone().requires_grad_()) for _ in range(2)]
        loss(*pairs[0]).backward()
        torch.compile(loss, fullgraph=True)(*pairs[1]).backward()
        if not all(torch.equal(a.grad, b.grad) for a, b in zip(*pairs, strict=True)):
            wrong.append(f"b {block}: gradients differ under torch.compile")
    return wrong


def add_source_options(parser: argparse.ArgumentParser) -> None:
    """Where the library comes from."""
    parser.add_argument("--build", action="store_true", help="compile the source tree with nvcc")
    parser.add_argument("--library", type=Path, help="use this shared object with the source tree's Python files")


def load(options: argparse.Namespace, folder: str) -> Any:
    """The rotation module of that library; None, with the reason printed, when the device cannot run it."""
    import torch

    if not torch.cuda.is_available():
        print("no CUDA device")
        return None
    if options.build or options.library is not None:
        from tests.orbit_kernels.stage import stage

        stage(Path(folder), options.library)
    module = importlib.import_module("orbit_kernels.rotation")
    image = module._library.image(0)
    print(f"{torch.cuda.get_device_name()}, library {image}", flush=True)
    return None if image is None else module


def main() -> int:
    """Run the cases, print one line for each block size and every difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_source_options(parser)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    import torch

    torch.manual_seed(numerics.SEED)
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    with tempfile.TemporaryDirectory() as temporary:
        module = load(options, temporary)
        if module is None:
            return 3
        worst: dict[tuple[int, str], dict[str, float]] = {}
        wrong: list[str] = []
        done = list(cases(options.quick))
        for case in done:
            shares, found = check(module, case)
            wrong += found
            row = worst.setdefault((case.block, case.way), {})
            for name, share in shares.items():
                row[name] = max(row.get(name, 0.0), share)
        if not options.quick:
            wrong += check_graph(module)
            wrong += check_registrations(module)
    for (block, way), row in sorted(worst.items()):
        text = "  ".join(f"{name} {share:.3f}" for name, share in row.items())
        print(f"b {block:5} {way:8}  {text}")
    print("\n".join(wrong[:20]))
    print(f"{len(done)} cases, {len(wrong)} differences; shares of the bound above")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
