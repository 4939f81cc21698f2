"""mamba-ssm's selective scan on a GPU against float64, element by element: all types, real and complex, every gradient.

    python -m tests.gpu.selective_scan_truth

Needs a mamba-ssm wheel, what it imports, and torch with a GPU. The driver may compile nothing (CUDA_DISABLE_PTX_JIT),
so what runs is machine code of the wheel.

    x_t = exp(delta_t A) x_{t-1} + delta_t B_t u_t     out_t = (C_t x_t + D u_t) silu(z_t)     (2 Re C_t x_t, A complex)

Bounds. A result is a sum over paths: a value enters at s, passes t - s factors exp(delta A), leaves at t. Each factor
is off by a few float32 steps and by those of its exponent (``step``), everything else on a path by CONSTANT steps and
one for each addition that can meet it. So the error is at most U (dS/dh + constant S), where S is the same sum of
absolute values and h makes every factor larger by ``step``; dS/dh is a difference quotient in float64. Gradients are
gradients of S likewise. What is stored is rounded once (the gradient of z twice: it is made from the stored output).
Exit status: 0 all right, 1 a difference, 3 no GPU or no wheel.
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
from torch.nn.functional import pad, silu, softplus

from tests.gpu.tally import STORED, Tally, U, device_line, stored

H = 1e-8
"""How much larger the factors are in the difference quotient, in units of ``step``."""
CONSTANT = 200.0
"""Float32 steps of everything on a path but factors and long sums: exponential and logarithm of softplus (below 60 for
the inputs here), products, SiLU, the additions of one block's scan (16 in a thread, 5 + 3 above) there and back."""
STEEPEST = 1.1
"""Largest derivative of SiLU."""


@dataclass(frozen=True)
class Case:
    """One call."""

    dtype: Any
    complex: bool
    varying_b: bool
    varying_c: bool
    gated: bool
    """With z."""
    softplus: bool
    length: int
    groups: int = 2
    batch: int = 2
    channels: int = 12
    states: int = 8
    plain: bool = False
    """Without D and without a bias of delta."""

    def __str__(self) -> str:
        names = [
            name for name in ("complex", "varying_b", "varying_c", "gated", "softplus", "plain") if getattr(self, name)
        ]
        return f"{self.dtype} length {self.length} groups {self.groups} {' '.join(names)}".replace("torch.", "")


def cases() -> Iterator[Case]:
    """All kernels: types, kinds of A, which of B and C vary, gates; lengths and options take turns."""
    lengths = itertools.cycle((1, 3, 60, 128, 500, 512, 1024, 1500, 2048, 2049, 4096, 5000))
    options = itertools.cycle(((True, 2), (False, 1), (True, 3)))
    for dtype, complex_, varying_b, varying_c, gated in itertools.product(STORED, *[(False, True)] * 4):
        for plain in (False, True):
            with_softplus, groups = next(options)
            # the number of groups is taken from B alone; complex gradients of a second group are added elsewhere
            groups = groups if varying_b and not complex_ else 1
            yield Case(dtype, complex_, varying_b, varying_c, gated, with_softplus, next(lengths), groups, plain=plain)


# --- float64 ----------------------------------------------------------------------------------------------------------


def before(values: Any, by: int) -> Any:
    """Values ``by`` positions earlier; 0 before the first."""
    return pad(values, (by, 0))[..., : values.shape[-1]]


def scan(factors: Any, terms: Any) -> Any:
    """x_t = factors_t x_{t-1} + terms_t along the last dimension, by doubling."""
    step = 1
    while step < terms.shape[-1]:
        terms = terms + factors * before(terms, step)
        factors = factors * before(factors, step)
        step *= 2
    return terms


def spread(value: Any, channels: int) -> Any:
    """B or C as ``[1 or batch, channels, states, 1 or length]``."""
    if value.dim() == 2:
        return value[None, :, :, None]
    value = value if value.dim() == 4 else value[:, None]
    return value.repeat_interleave(channels // value.shape[1], 1)


def selective_scan(v: dict[str, Any], with_softplus: bool) -> tuple[Any, Any]:
    """Output ``[batch, channels, length]`` and last state; ``v``: u, delta, A, B, C, maybe D, z, bias, in float64."""
    u, a = v["u"], v["A"]
    delta = v["delta"] if "bias" not in v else v["delta"] + v["bias"][:, None]
    delta = softplus(delta, threshold=1e6) if with_softplus else delta
    b, c = (spread(_complex(v[name], a), u.shape[1]) for name in ("B", "C"))
    wide = delta[:, :, None]
    x = scan(torch.exp(wide * a[:, :, None]), b * (wide * u[:, :, None]))
    y = (x * c).sum(2)
    y = 2 * y.real if a.is_complex() else y
    y = y + v["D"][:, None] * u if "D" in v else y
    return (y * silu(v["z"]) if "z" in v else y), x[..., -1]


def _complex(value: Any, a: Any) -> Any:
    """B or C that varies comes as real and imaginary values in turns when A is complex."""
    return torch.view_as_complex(value.unflatten(-1, (-1, 2))) if a.is_complex() and not value.is_complex() else value


def absolute(v: dict[str, Any], with_softplus: bool, h: float) -> tuple[Any, Any]:
    """S of output and last state: all terms positive, all derivatives positive, factors larger by ``h`` steps."""
    u, a, twice = v["u"], v["A"], 2.0 if "complex" in v else 1.0
    delta = v["delta"] if "bias" not in v else v["delta"] + v["bias"][:, None]
    delta = softplus(delta, threshold=1e6) if with_softplus else delta
    b, c = (spread(v[name], u.shape[1]) for name in ("B", "C"))
    wide, size = delta[:, :, None], a[:, :, None]
    still = wide.detach()
    # exp2 and its product 4 + 2 steps, sine and cosine 16; the exponent: what delta is off by, and its own products
    step = (6.0 if twice == 1.0 else 22.0) + 30.0 * still * size.detach()
    factors = torch.exp(still * v["real A"][:, :, None]) * (1.0 + h * step)
    terms = b * (wide * u[:, :, None])
    past = before(scan(factors, terms).detach(), 1)
    # 0, but its derivatives are those of the factors; the kernels find past terms as a difference, which costs two more
    moved = (size.detach() * (wide - still) + still * (size - size.detach())) * (factors * past + 2 * terms.detach())
    x = scan(factors, terms + moved)
    y = (x * c).sum(2) * twice
    y = y + v["D"][:, None] * u if "D" in v else y
    if "z" in v:
        gate = v["z"].detach()
        y = y * (silu(gate).abs() + STEEPEST * (v["z"] - gate))
    return y, x[..., -1]


def sizes(v: dict[str, Any]) -> dict[str, Any]:
    """What :func:`absolute` takes: absolute values (delta and its bias go through softplus and stay what they are)."""
    found = {name: value if name in ("delta", "bias", "z") else value.abs() for name, value in v.items()}
    found["real A"] = v["A"].real if v["A"].is_complex() else v["A"]
    if v["A"].is_complex():
        found["complex"] = True
        for name in ("B", "C"):
            found[name] = _complex(v[name], v["A"]).abs()
    return found


def leaves(v: dict[str, Any]) -> dict[str, Any]:
    """Copies that are differentiated."""
    held = ("real A", "complex")
    return {name: value if name in held else value.detach().clone().requires_grad_() for name, value in v.items()}


def gradients(out: Any, v: dict[str, Any], grad: Any) -> dict[str, Any]:
    """Gradient by name."""
    names = [name for name in v if name not in ("real A", "complex")]
    return dict(
        zip(names, torch.autograd.grad(out, [v[name] for name in names], grad, materialize_grads=True), strict=True)
    )


@dataclass
class Truth:
    """float64 results of one call, and by how much float32 arithmetic may miss them."""

    out: Any
    state: Any
    grads: dict[str, Any]
    off: dict[str, Any]
    """By name; ``out`` and ``state`` too."""


def truth(v: dict[str, Any], grad: Any, with_softplus: bool) -> Truth:
    """Everything in float64; ``v`` as for :func:`selective_scan`."""
    exact = leaves(v)
    out, state = selective_scan(exact, with_softplus)
    grads = gradients(out, exact, grad)
    pair = []
    for h in (0.0, H):
        held = leaves(sizes(v))
        total, last = absolute(held, with_softplus, h)
        pair.append({"out": total.detach(), "state": last.detach(), **gradients(total, held, grad.abs())})
    batch, channels, length = v["u"].shape
    groups = v["B"].shape[1] if v["B"].dim() == 4 else 1
    blocks = batch * (length // 512 + 1)
    sums = {"A": blocks, "D": blocks + length // 32, "bias": blocks + length // 32, "B": blocks + channels // groups,
            "C": blocks + channels // groups}  # fmt: skip
    off = {}
    for name, value in pair[0].items():
        added = CONSTANT + 2 * v["A"].shape[1] + sums.get(name, 0)
        off[name] = U * ((pair[1][name] - value) / H + added * value)
    for name in ("B", "C"):
        if v["A"].is_complex() and not v[name].is_complex():
            off[name] = off[name].repeat_interleave(2, -1)
    return Truth(out.detach(), state.detach(), grads, off)


# --- cases ------------------------------------------------------------------------------------------------------------


def make(case: Case) -> dict[str, Any]:
    """Random tensors of one case, on the GPU, in the types that the kernels ask for."""
    shape = (case.batch, case.channels, case.length)

    def normal(*sizes_: int, dtype: Any = torch.float32) -> Any:
        return torch.randn(*sizes_, device="cuda").to(dtype)

    a = -(0.05 + 2 * torch.rand(case.channels, case.states, device="cuda"))
    v = {"u": normal(*shape, dtype=case.dtype)}
    v["delta"] = (normal(*shape) - 1 if case.softplus else torch.rand(shape, device="cuda")).to(case.dtype)
    v["A"] = torch.complex(a, normal(case.channels, case.states)) if case.complex else a
    for name, varying in (("B", case.varying_b), ("C", case.varying_c)):
        if varying:
            length = case.length * (2 if case.complex else 1)
            v[name] = normal(case.batch, case.groups, case.states, length, dtype=case.dtype)
        else:
            v[name] = torch.randn(case.channels, case.states, device="cuda", dtype=v["A"].dtype)
    if case.gated:
        v["z"] = normal(*shape, dtype=case.dtype)
    if not case.plain:
        v["D"] = normal(case.channels)
        v["bias"] = torch.rand(case.channels, device="cuda") / 2
    return {name: value.requires_grad_() for name, value in v.items()}


def widened(v: dict[str, Any]) -> dict[str, Any]:
    """The same numbers in float64."""
    return {
        name: value.detach().to(torch.complex128 if value.is_complex() else torch.float64) for name, value in v.items()
    }


def check(case: Case, tally: Tally) -> None:
    """One case: output, last state and every gradient."""
    from mamba_ssm.ops.selective_scan_interface import selective_scan_fn

    v = make(case)
    out, state = selective_scan_fn(
        v["u"], v["delta"], v["A"], v["B"], v["C"], v.get("D"), v.get("z"), v.get("bias"), case.softplus, True
    )
    grad = torch.randn(out.shape, device="cuda").to(case.dtype)
    found = dict(zip(v, torch.autograd.grad(out, list(v.values()), grad, materialize_grads=True), strict=True))
    exact = truth(widened(v), grad.double(), case.softplus)
    kind = f"{str(case.dtype).removeprefix('torch.')} {'complex' if case.complex else 'real'}"
    tally.compare(f"output {kind}", str(case), out, exact.out, stored(exact.out, exact.off["out"], case.dtype))
    # with a B that does not vary the package keeps the sum that B is multiplied with, not the state
    pairs = {"state": (state, exact.state)} if case.varying_b else {}
    pairs |= {f"gradient of {name}": (found[name], exact.grads[name]) for name in v}
    for name, (got, value) in pairs.items():
        got, value, off = got.detach(), value.detach(), exact.off[name.removeprefix("gradient of ")]
        if value.is_complex():
            got, value, off = torch.view_as_real(got), torch.view_as_real(value), off[..., None].expand(*off.shape, 2)
        bound = stored(value, off, got.dtype, roundings=2 if name == "gradient of z" else 1)
        tally.compare(f"{name} {kind}", str(case), got, value, bound)


def ready() -> bool:
    """Whether there are a GPU and the wheel; says what is not."""
    if not torch.cuda.is_available():
        print("no CUDA device")
        return False
    try:
        import mamba_ssm
    except ImportError as error:
        print(f"mamba-ssm cannot be imported: {error}")
        return False
    print(f"{device_line()}, mamba-ssm {mamba_ssm.__version__}", flush=True)
    return True


def main() -> int:
    """Run every case."""
    if not ready():
        return 3
    torch.manual_seed(20)
    tally, done = Tally(), list(cases())
    for case in done:
        check(case, tally)
    torch.cuda.synchronize()
    print(f"{len(done)} cases forward and backward")
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
