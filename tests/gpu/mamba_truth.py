"""What mamba-ssm builds of its kernels, on a GPU against float64: SSD, one step of generation, both mixers as a whole.

    python -m tests.gpu.mamba_truth          (the scan by itself, element by element: tests.gpu.selective_scan_truth)

Needs the wheels of mamba-ssm and causal-conv1d, what they import, and torch with a GPU and Triton. SSD is Triton's
code, made here for this GPU; the mixers of Mamba and Mamba-2 also run causal-conv1d's and the scan's compiled kernels.

Several intermediate results of 16 bits stand between input and output, so errors are measured by length: that of
(result - float64) over that of float64, at most ROUNDINGS roundings of the type. Matrix products of float32 are TF32's
in Triton, whose rounding is that of float16. Exit status: 0 all right, 1 a difference, 3 no GPU or no wheel.
"""

from __future__ import annotations

import os
import sys
from typing import Any

os.environ.setdefault("CUDA_DISABLE_PTX_JIT", "1")
import torch
from torch.nn.functional import silu

from tests.gpu.causal_conv1d_truth import convolve
from tests.gpu.selective_scan_truth import leaves, ready, selective_scan
from tests.gpu.tally import STORED, Tally

ROUNDINGS = 8
"""Of everything on the longest way from an input to a gradient: products, decays, states and outputs, as stored."""


def limit(dtype: Any) -> float:
    """Largest error allowed, as a part of the length of the result."""
    return ROUNDINGS * STORED[torch.float16 if dtype == torch.float32 else dtype]


def normal(*shape: int, dtype: Any = torch.float32, scale: float = 1.0) -> Any:
    """Random numbers of the type, on the GPU, to be differentiated."""
    return (torch.randn(*shape, device="cuda") * scale).to(dtype).requires_grad_()


def double(v: dict[str, Any]) -> dict[str, Any]:
    """The same numbers in float64, to be differentiated."""
    return leaves({name: value.double() for name, value in v.items()})


def compare(kind: str, where: str, got: Any, v: dict[str, Any], exact: Any, wide: dict[str, Any], tally: Tally) -> None:
    """Output and all gradients for a random gradient of the output."""
    dtype = got.dtype
    grad = torch.randn(got.shape, device="cuda").to(dtype)
    found = torch.autograd.grad(got, list(v.values()), grad)
    true = torch.autograd.grad(exact, list(wide.values()), grad.double())
    kind = f"{kind} {str(dtype).removeprefix('torch.')}"
    tally.norm(f"{kind}: output", where, got, exact.detach(), limit(dtype))
    for name, one, other in zip(v, found, true, strict=True):
        tally.norm(f"{kind}: gradient of {name}", where, one, other, limit(dtype))


def by_channel(v: dict[str, Any], heads: int, width: int) -> dict[str, Any]:
    """SSD's tensors (``[batch, length, heads, width]``, one A for each head) as the scan takes them."""
    states = v["B"].shape[-1]

    def lined(value: Any) -> Any:
        return value.flatten(2).transpose(1, 2)

    found = {"u": lined(v["x"]), "delta": lined(v["dt"]).repeat_interleave(width, 1)}
    found["A"] = v["A"].repeat_interleave(width)[:, None].expand(heads * width, states)
    found["B"], found["C"] = (v[name].permute(0, 2, 3, 1) for name in ("B", "C"))
    found["D"], found["bias"] = (v[name].repeat_interleave(width) for name in ("D", "dt_bias"))
    return found | ({"z": lined(v["z"])} if "z" in v else {})


def check_ssd(dtype: Any, length: int, groups: int, gated: bool, tally: Tally) -> None:
    """``mamba_chunk_scan_combined``, forward and backward."""
    from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined

    batch, heads, width, states = 2, 4, 64, 64
    v = {"x": normal(batch, length, heads, width, dtype=dtype), "dt": normal(batch, length, heads, dtype=dtype)}
    v["A"] = (-0.1 - torch.rand(heads, device="cuda")).requires_grad_()
    v["B"], v["C"] = (normal(batch, length, groups, states, dtype=dtype) for _ in range(2))
    v["D"], v["dt_bias"] = normal(heads), (torch.rand(heads, device="cuda") - 3).requires_grad_()
    if gated:
        v["z"] = normal(batch, length, heads, width, dtype=dtype)
    got = mamba_chunk_scan_combined(
        v["x"], v["dt"], v["A"], v["B"], v["C"], 128, D=v["D"], z=v.get("z"), dt_bias=v["dt_bias"], dt_softplus=True
    )
    wide = double(v)
    exact, _state = selective_scan(by_channel(wide, heads, width), True)
    exact = exact.transpose(1, 2).unflatten(2, (heads, width))
    compare("SSD", f"length {length}, {groups} groups, z {gated}", got, v, exact, wide, tally)


def check_step(dtype: Any, tally: Tally) -> None:
    """``selective_state_update``: one value more, its output and the state that it leaves."""
    from mamba_ssm.ops.triton.selective_state_update import selective_state_update

    batch, channels, states = 3, 200, 16
    state = torch.randn(batch, channels, states, device="cuda")
    v = {name: normal(batch, channels, dtype=dtype).detach() for name in ("u", "delta", "z")}
    v["A"] = -0.1 - torch.rand(channels, states, device="cuda")
    v |= {name: normal(batch, states, dtype=dtype).detach() for name in ("B", "C")}
    v["D"], v["bias"] = torch.randn(channels, device="cuda"), torch.rand(channels, device="cuda") - 2
    wide = {name: value.double() for name, value in v.items()}
    delta = torch.nn.functional.softplus(wide["delta"] + wide["bias"])
    moved = state.double() * torch.exp(delta[..., None] * wide["A"])
    moved = moved + (delta * wide["u"])[..., None] * wide["B"][:, None]
    exact = ((moved * wide["C"][:, None]).sum(-1) + wide["D"] * wide["u"]) * silu(wide["z"])
    got = selective_state_update(
        state, v["u"], v["delta"], v["A"], v["B"], v["C"], v["D"], z=v["z"], dt_bias=v["bias"], dt_softplus=True
    )
    kind = f"step {str(dtype).removeprefix('torch.')}"
    tally.norm(f"{kind}: output", "", got, exact, limit(dtype))
    tally.norm(f"{kind}: state", "", state, moved, 2.0**-18)


def check_mamba(dtype: Any, length: int, tally: Tally) -> None:
    """``mamba_inner_fn``, Mamba's mixer: convolution, projections, scan, gate, projection."""
    from mamba_ssm.ops.selective_scan_interface import mamba_inner_fn

    batch, channels, states, rank, out = 2, 64, 16, 8, 48
    v = {"xz": normal(batch, 2 * channels, length, dtype=dtype), "conv": normal(channels, 1, 4, dtype=dtype, scale=0.5)}
    v["conv bias"] = normal(channels, dtype=dtype)
    v["x_proj"] = normal(rank + 2 * states, channels, dtype=dtype, scale=channels**-0.5)
    v["dt_proj"] = normal(channels, rank, dtype=dtype, scale=rank**-0.5)
    v["out_proj"] = normal(out, channels, dtype=dtype, scale=channels**-0.5)
    v["A"] = (-0.1 - torch.rand(channels, states, device="cuda")).requires_grad_()
    v["D"], v["bias"] = normal(channels), (torch.rand(channels, device="cuda") - 3).requires_grad_()
    got = mamba_inner_fn(
        v["xz"], v["conv"], v["conv bias"], v["x_proj"], v["dt_proj"], v["out_proj"], None, v["A"], D=v["D"],
        delta_bias=v["bias"], delta_softplus=True,
    )  # fmt: skip
    wide = double(v)
    x, z = wide["xz"].chunk(2, 1)
    x = silu(convolve(x, wide["conv"][:, 0], wide["conv bias"], None, None))
    delta, b, c = (wide["x_proj"] @ x).split([rank, states, states], 1)
    scanned, _state = selective_scan(
        {"u": x, "delta": wide["dt_proj"] @ delta, "A": wide["A"], "B": b, "C": c, "D": wide["D"], "z": z,
         "bias": wide["bias"]}, True,
    )  # fmt: skip
    exact = (wide["out_proj"] @ scanned).transpose(1, 2)
    compare("Mamba", f"length {length}", got, v, exact, wide, tally)


def check_mamba2(dtype: Any, length: int, tally: Tally) -> None:
    """``mamba_split_conv1d_scan_combined``, Mamba-2's mixer: convolution, SSD, gate, norm, projection."""
    from mamba_ssm.ops.triton.ssd_combined import mamba_split_conv1d_scan_combined

    batch, heads, width, states, out, epsilon = 2, 4, 64, 64, 96, 1e-5
    channels = heads * width
    v = {"zxbcdt": normal(batch, length, 2 * channels + 2 * states + heads, dtype=dtype)}
    v["conv"] = normal(channels + 2 * states, 4, dtype=dtype, scale=0.5)
    v["conv bias"] = normal(channels + 2 * states, dtype=dtype)
    v["dt_bias"] = (torch.rand(heads, device="cuda") - 3).requires_grad_()
    v["A"], v["D"] = (-0.1 - torch.rand(heads, device="cuda")).requires_grad_(), normal(heads)
    v["norm"] = normal(channels, dtype=dtype)
    v["out_proj"] = normal(out, channels, dtype=dtype, scale=channels**-0.5)
    got = mamba_split_conv1d_scan_combined(
        v["zxbcdt"], v["conv"], v["conv bias"], v["dt_bias"], v["A"], v["D"], 128, rmsnorm_weight=v["norm"],
        rmsnorm_eps=epsilon, outproj_weight=v["out_proj"], headdim=width, norm_before_gate=False,
    )  # fmt: skip
    wide = double(v)
    z, mixed, dt = wide["zxbcdt"].split([channels, channels + 2 * states, heads], 2)
    mixed = silu(convolve(mixed.transpose(1, 2), wide["conv"], wide["conv bias"], None, None)).transpose(1, 2)
    x, b, c = mixed.split([channels, states, states], 2)
    ssd = {"x": x.unflatten(2, (heads, width)), "dt": dt, "A": wide["A"], "B": b[:, :, None], "C": c[:, :, None],
           "D": wide["D"], "dt_bias": wide["dt_bias"]}  # fmt: skip
    scanned, _state = selective_scan(by_channel(ssd, heads, width), True)
    gated = scanned.transpose(1, 2) * silu(z)
    gated = gated * torch.rsqrt(gated.square().mean(-1, keepdim=True) + epsilon) * wide["norm"]
    compare("Mamba-2", f"length {length}", got, v, gated @ wide["out_proj"].T, wide, tally)


def main() -> int:
    """Run everything."""
    if not ready():
        return 3
    torch.manual_seed(20)
    tally = Tally()
    for dtype in STORED:
        check_step(dtype, tally)
    for dtype in (torch.float32, torch.bfloat16):
        check_mamba(dtype, 700, tally)
    for length, groups, gated in ((1024, 1, False), (777, 2, True)):
        check_ssd(torch.bfloat16, length, groups, gated, tally)
    check_mamba2(torch.bfloat16, 1000, tally)
    check_ssd(torch.float32, 300, 1, False, tally)
    torch.cuda.synchronize()
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
