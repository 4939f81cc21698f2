"""orbit_kernels.token_logprob on a GPU against float64, element by element, within bounds derived from the arithmetic.

    python -m tests.gpu.token_logprob_truth              an installed orbit-kernels wheel
    python -m tests.gpu.token_logprob_truth --build      compiles the source tree with nvcc first
    ... --quick                                          small shapes only, for compute-sanitizer

Exit status: 0 all right, 1 something is wrong, 3 there is no GPU that the library has code for. Bounds: see ``Bounds``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

U = 2.0**-24
"""Unit roundoff of float32."""
EXP2 = 2.0**-22
"""Relative error of ex2.approx.ftz.f32 (PTX ISA, "ex2": 2 units in the last place over the full range)."""
FLUSH = 2.0**-126
"""ex2.approx.ftz returns 0 below this."""
STORED = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: U}
SMALLEST = {torch.bfloat16: 2.0**-133, torch.float16: 2.0**-24, torch.float32: 2.0**-149}
FAILURES: list[str] = []


def check(name: str, good: bool, detail: str = "") -> None:
    """Remember and print a failure."""
    if not good:
        FAILURES.append(f"{name} {detail}")
        print(f"FAILED {name} {detail}", flush=True)


@dataclass
class Truth:
    """float64 results of one input, and how far float32 arithmetic may be from them.

    z = (x - m) / T. The exponent is one subtraction and one product with a rounded factor (5 U relative); each power of
    two adds EXP2; a row's sum passes at most 3 more powers (warp, block, row) and at most 40 additions and products:
    relative error of the sum:  r = 4 EXP2 + 40 U + 5 U w,  w = sum p |z|.
    log-prob: r + 3 U (|z_target| + log s) + U |log-prob|. Entropy adds the error of w: (r + 100 U) w + 10 U sum p z^2.
    A gradient p (a + b log p) / T is off by p (|a| + |b| |log p|) / T times the error of log p and a few roundings,
    plus one rounding to the stored type.
    """

    logprob: Any
    entropy: Any
    grad: Any
    logprob_bound: Any
    entropy_bound: Any
    grad_bound: Any


def truth(x: Any, targets: Any, temperature: float, of_logprob: Any, of_entropy: Any) -> Truth:
    """Everything in float64 on the device; ``x`` [tokens, vocab] without padding, targets inside it."""
    wide = x.double()
    top = wide.amax(1, keepdim=True)
    z = (wide - top) / temperature
    log_s = z.exp().sum(1).log()
    log_p = z - log_s[:, None]
    p = log_p.exp()
    far = z == -torch.inf
    z_abs, log_p_abs = z.abs().masked_fill(far, 0), log_p.abs().masked_fill(far, 0)
    w, square = (p * z_abs).sum(1), (p * z_abs**2).sum(1)
    logprob = log_p.gather(1, targets[:, None])[:, 0]
    entropy = (p * log_p_abs).sum(1)
    r = 4 * EXP2 + 40 * U + 5 * U * w
    z_target = z_abs.gather(1, targets[:, None])[:, 0]
    logprob_bound = r + 3 * U * (z_target + log_s) + U * logprob.abs()
    entropy_bound = r + 3 * U * log_s + (r + 100 * U) * w + 10 * U * square
    a, b = of_logprob.double()[:, None], of_entropy.double()[:, None]
    grad = (-a * p - b * p * (log_p.masked_fill(far, 0) + entropy[:, None])) / temperature
    grad.scatter_add_(1, targets[:, None], a / temperature)
    size = p * (a.abs() + b.abs() * (log_p_abs + entropy[:, None])) / temperature
    of_p = EXP2 + (r + 3 * U * log_s)[:, None] + 8 * U * (z_abs + log_s[:, None])
    bound = size * (of_p + 20 * U) + b.abs() * p / temperature * (of_p + entropy_bound[:, None])
    bound += FLUSH * (a.abs() + b.abs() * (200 + entropy[:, None])) / temperature
    bound.scatter_add_(1, targets[:, None], 4 * U * (a.abs() / temperature))
    grad_bound = bound + STORED[x.dtype] * (grad.abs() + bound) + SMALLEST[x.dtype]
    return Truth(logprob, entropy, grad, logprob_bound, entropy_bound, grad_bound)


def share(name: str, got: Any, exact: Any, bound: Any) -> float:
    """Largest error as a share of its bound."""
    value = got.detach().double()
    finite = bool(torch.isfinite(value).all())
    worst = float(((value - exact).abs() / bound).max())
    check(name, finite and worst <= 1.0, f"share of bound {worst:.3g}, all finite: {finite}")
    return worst


def gradients(tokens: int) -> tuple[Any, Any]:
    """Gradients of log-prob and entropy of usual sizes and both signs."""
    return torch.randn(tokens, device="cuda"), 0.1 * torch.randn(tokens, device="cuda")


def run(logits: Any, targets: Any, grads: tuple[Any, Any], **keywords: Any) -> tuple[Any, Any, Any]:
    """Log-prob, entropy and gradient through autograd."""
    import orbit_kernels

    leaf = logits.detach().requires_grad_()
    logprob, entropy = orbit_kernels.token_logprob(leaf, targets, **keywords)
    (grad,) = torch.autograd.grad((logprob, entropy), leaf, grads)
    return logprob, entropy, grad


def random_logits(tokens: int, vocab: int, dtype: Any, spread: float, columns: int, offset: int) -> Any:
    """A view whose rows are ``columns`` apart and begin ``offset`` elements after an aligned address; NaN around it."""
    store = torch.full((tokens * columns + offset + 64,), math.nan, dtype=dtype, device="cuda")
    view = store.as_strided((tokens, vocab), (columns, 1), offset)
    view.copy_((torch.randn(tokens, vocab, device="cuda") * spread).to(dtype))
    return view


def against_float64(quick: bool) -> None:
    """Random inputs of all formats, spreads, temperatures and layouts."""
    shapes = [(3, 1, 1, 0), (5, 7, 9, 3), (4, 1000, 1000, 0), (4, 1003, 1003, 1), (3, 20000, 20008, 0)]
    if not quick:
        shapes += [(17, 32000, 32000, 0), (9, 151936, 151936, 0), (6, 151937, 151937, 5), (5, 128256, 128512, 8)]
    worst: dict[str, float] = {}
    for (tokens, vocab, columns, offset), dtype in itertools.product(shapes, STORED):
        for spread, temperature in ((1.0, 1.0), (4.0, 0.7), (30.0, 3.0)):
            x = random_logits(tokens, vocab, dtype, spread, columns, offset)
            targets = torch.randint(0, vocab, (tokens,), device="cuda")
            grads = gradients(tokens)
            exact = truth(x, targets, temperature, *grads)
            logprob, entropy, grad = run(x, targets, grads, temperature=temperature)
            where = f"{dtype} {tokens}x{vocab} rows {columns} apart, from {offset}, spread {spread}, T {temperature}"
            for name, got, value, bound in (
                ("logprob", logprob, exact.logprob, exact.logprob_bound),
                ("entropy", entropy, exact.entropy, exact.entropy_bound),
                ("gradient", grad, exact.grad, exact.grad_bound),
            ):
                found = share(f"{name} {where}", got, value, bound)
                key = f"{name} {str(dtype).removeprefix('torch.')}"
                worst[key] = max(worst.get(key, 0.0), found)
            again = run(x, targets, grads, temperature=temperature)
            check(
                f"repeatable {where}",
                all(torch.equal(a, b) for a, b in zip(again, (logprob, entropy, grad), strict=True)),
            )
    print("largest share of the error bound:", json.dumps({key: round(value, 3) for key, value in worst.items()}))


def edges() -> None:
    """Masked, huge, equal, missing and ignored: the same as the CPU implementation, NaN where it has NaN."""
    import orbit_kernels

    inf, nan = math.inf, math.nan
    for vocab, dtype in itertools.product((8, 13, 40000), STORED):
        big = 6e4 if dtype == torch.float16 else 3e38
        rows = torch.randn(14, vocab)
        rows[0, 1:] = -inf
        rows[1] = -inf
        rows[2, 3] = nan
        rows[3, 4] = inf
        rows[4] = 7.0
        rows[5] = -big
        rows[5, 2] = big
        rows[6] = big
        rows[7, vocab // 2 :] = -inf
        rows[8] = nan  # ignored
        rows[12, : vocab - 1] = -inf
        x = rows.to(dtype).cuda()
        targets = torch.tensor([0, 1, 2, 3, 4, 2, 1, 0, -100, -1, vocab, 5, vocab - 1, 5], device="cuda")
        grads = gradients(14)
        got = run(x, targets, grads)
        leaf = x.cpu().requires_grad_()
        logprob, entropy = orbit_kernels.token_logprob(leaf, targets.cpu())
        (grad,) = torch.autograd.grad((logprob, entropy), leaf, [each.cpu() for each in grads])
        for name, one, other in zip(("logprob", "entropy", "gradient"), got, (logprob, entropy, grad), strict=True):
            where = f"edges {name} {dtype} {vocab}"
            one, other = one.detach().cpu().double(), other.detach().double()
            check(f"{where} NaN", torch.equal(one.isnan(), other.isnan()))
            check(f"{where} infinite", torch.equal(one.isinf(), other.isinf()))
            step = max(STORED[dtype], 2e-6) if name == "gradient" else 2e-6
            off = (one - other).abs() - 4 * step * (other.abs() + 1e-3)
            check(where, bool((off.nan_to_num(0.0) <= 0).all()), f"{float(off.nan_to_num(0.0).max()):.3g}")
        check(f"masked {dtype} {vocab}", bool((got[2][7, vocab // 2 :] == 0).all()))
        check(f"ignored {dtype} {vocab}", bool((got[2][8] == 0).all()) and got[0][8].item() == 0 == got[1][8].item())


def layouts() -> None:
    """Padding, rows in other batches, more rows than one plane of the grid, none, gradients over the logits, shards."""
    import orbit_kernels
    from orbit_kernels.partials import finish, merge_partials

    ops = torch.ops.orbit_kernels
    for vocab, columns in ((1000, 1024), (1001, 1024), (20000, 20480), (997, 1001)):
        x = random_logits(6, columns, torch.bfloat16, 2.0, columns, 0)
        x[:, vocab:] = math.nan
        targets, grads = torch.randint(0, vocab, (6,), device="cuda"), gradients(6)
        padded = run(x, targets, grads, vocab_size=vocab)
        exact = truth(x[:, :vocab], targets, 1.0, *grads)
        share(f"padded logprob {vocab}", padded[0], exact.logprob, exact.logprob_bound)
        share(f"padded gradient {vocab}", padded[2][:, :vocab], exact.grad, exact.grad_bound)
        check(f"padding {vocab}", bool((padded[2][:, vocab:] == 0).all()))
        store = torch.full((6, columns + 64), 7.0, dtype=torch.bfloat16, device="cuda")
        store[:, :columns] = x
        saved = ops.token_logprob(store[:, :columns], targets, 1.0, vocab, -100, 0, vocab, False)
        shard = (1.0, vocab, -100, 0, vocab)
        ops.token_logprob_grad_(store[:, :columns], targets, saved[2], saved[1], *grads, *shard)
        check(f"in place {vocab}", torch.equal(store[:, :columns], padded[2]))
        check(f"around in place {vocab}", bool((store[:, columns:] == 7.0).all()))

    x = random_logits(40000, 64, torch.bfloat16, 2.0, 64, 0)
    targets, grads = torch.randint(0, 64, (40000,), device="cuda"), gradients(40000)
    many, few = run(x, targets, grads), run(x[32760:32780], targets[32760:32780], tuple(g[32760:32780] for g in grads))
    exact = truth(x, targets, 1.0, *grads)
    share("many rows logprob", many[0], exact.logprob, exact.logprob_bound)
    share("many rows gradient", many[2], exact.grad, exact.grad_bound)
    check(
        "rows do not depend on the batch", all(torch.equal(a[32760:32780], b) for a, b in zip(many, few, strict=True))
    )
    none = run(x[:0], targets[:0], tuple(g[:0] for g in grads))
    check("no rows", none[0].shape == (0,) and none[2].shape == (0, 64))

    x = random_logits(7, 4096, torch.bfloat16, 3.0, 4096, 0)
    targets, grads = torch.randint(0, 4096, (7,), device="cuda"), gradients(7)
    exact = truth(x, targets, 0.8, *grads)
    cuts = (0, 1024, 1500, 4096)
    parts = [
        ops.token_logprob_partials(x[:, a:b], targets, 0.8, b - a, -100, a, 4096) for a, b in itertools.pairwise(cuts)
    ]
    merged = merge_partials(torch.stack(parts), 0.8)
    logprob, entropy, saved = finish(merged, targets, temperature=0.8)
    share("shards logprob", logprob, exact.logprob, 3 * exact.logprob_bound)
    share("shards entropy", entropy, exact.entropy, 3 * exact.entropy_bound)
    for a, b in itertools.pairwise(cuts):
        leaf = x[:, a:b].detach().requires_grad_()
        got = orbit_kernels.vocab_parallel_token_logprob(
            leaf, targets, lambda _own: torch.stack(parts), vocab_start=a, vocab_total=4096, temperature=0.8
        )
        check("shards agree", torch.equal(got[0], logprob) and torch.equal(got[1], entropy))
        (grad,) = torch.autograd.grad(got, leaf, grads)
        share(f"shard gradient {a}", grad, exact.grad[:, a:b], 3 * exact.grad_bound[:, a:b])
    del saved


def registrations() -> None:
    """A captured graph, another stream, opcheck and torch.compile give the very same bits."""
    import orbit_kernels

    x = random_logits(33, 32000, torch.bfloat16, 2.0, 32000, 0)
    targets, grads = torch.randint(0, 32000, (33,), device="cuda"), gradients(33)
    expected = run(x, targets, grads)
    graph, static = torch.cuda.CUDAGraph(), x.clone()
    with torch.cuda.graph(graph):
        captured = run(static, targets, grads)
    static.zero_()
    graph.replay()
    static.copy_(x)
    graph.replay()
    torch.cuda.synchronize()
    check("graph", all(torch.equal(a, b) for a, b in zip(captured, expected, strict=True)))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        aside = run(x, targets, grads)
    torch.cuda.synchronize()
    check("stream", all(torch.equal(a, b) for a, b in zip(aside, expected, strict=True)))

    shard = (0.9, 31999, -100, 0, 31999)
    op = torch.ops.orbit_kernels.token_logprob.default
    saved = op(x, targets % 31999, *shard, False)
    result = torch.library.opcheck(op, (x.clone().requires_grad_(), targets % 31999, *shard, False))
    check("opcheck", set(result.values()) == {"SUCCESS"}, str(result))
    grad_op = torch.ops.orbit_kernels.token_logprob_grad_.default
    result = torch.library.opcheck(grad_op, (x.clone(), targets, saved[2], saved[1], *grads, *shard))
    check("opcheck in place", set(result.values()) == {"SUCCESS"}, str(result))

    def loss(logits: Any) -> Any:
        logprob, entropy = orbit_kernels.token_logprob(logits * 2, targets, inplace_backward=True)
        return (grads[0] * logprob + grads[1] * entropy).sum()

    pair = [x.clone().requires_grad_() for _ in range(2)]
    loss(pair[0]).backward()
    torch.compile(loss, fullgraph=True)(pair[1]).backward()
    check("torch.compile", torch.equal(pair[0].grad, pair[1].grad))


def machine_code() -> None:
    """The GPU runs machine code from the file: the driver's compiler is not needed and has nothing to work on."""
    import orbit_kernels

    major, minor = torch.cuda.get_device_capability()
    image = orbit_kernels.image(0)
    print("image:", image, "capability:", f"{major}.{minor}", torch.cuda.get_device_name())
    check("machine code", image is not None and image.binary_version == 10 * major + minor, str(image))
    folder = str(Path(orbit_kernels.__file__).parents[1])
    code = "import orbit_kernels; print(orbit_kernels.image(0))"
    for name, expected in (("CUDA_DISABLE_PTX_JIT", str(image)), ("CUDA_FORCE_PTX_JIT", "None")):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": folder, name: "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        print(f"{name}=1:", done.stdout.strip(), done.stderr.strip()[-200:])
        check(name, done.stdout.strip() == expected, done.stderr[-500:])


def main() -> int:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", action="store_true", help="compile the source tree with nvcc")
    parser.add_argument("--library", type=Path, help="use this shared object with the source tree's Python files")
    parser.add_argument("--quick", action="store_true", help="small shapes, no other processes")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("no CUDA device")
        return 3
    with tempfile.TemporaryDirectory() as folder:
        if options.build or options.library:
            from tests.orbit_kernels.stage import stage

            stage(Path(folder), options.library)
        torch.manual_seed(20)
        if not options.quick:
            machine_code()
        against_float64(options.quick)
        edges()
        layouts()
        if not options.quick:
            registrations()
        torch.cuda.synchronize()
    print(f"{len(FAILURES)} failures")
    return 1 if FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())
