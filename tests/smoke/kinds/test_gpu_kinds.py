"""The GPU checks with stand-ins that compute on the CPU: right ones pass, subtly wrong ones do not. Needs torch (CPU).

This tests the references and bounds, not any kernel; what a kernel does is seen only on a device.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from orbit.smoke.kinds import gpu, gpu_kernels
from orbit.smoke.model import CheckError, Context

torch: Any = pytest.importorskip("torch", reason="torch is not installed here (the stack is in the image)")


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    module = ModuleType(name)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)
    if "." in name:
        parent = ModuleType(name.rpartition(".")[0])
        setattr(parent, name.rpartition(".")[2], module)
        monkeypatch.setitem(sys.modules, parent.__name__, parent)


def test_matmul() -> None:
    assert gpu.check_matmul({}, Context())["compared"]["matmul"]["share_of_bound"] <= 1


@pytest.mark.parametrize("scale", [1.0, 1.02])
def test_te_linear(monkeypatch: pytest.MonkeyPatch, scale: float) -> None:
    class Linear(torch.nn.Linear):  # type: ignore[misc]
        def __init__(self, width: int, out: int, *, bias: bool, params_dtype: Any, device: str) -> None:
            super().__init__(width, out, bias=bias, dtype=params_dtype)

        def forward(self, x: Any) -> Any:
            return (x @ (self.weight.t() * scale)) + self.bias

    stand_in(monkeypatch, "transformer_engine.pytorch", Linear=Linear)
    if scale != 1.0:
        with pytest.raises(CheckError, match="more than rounding explains"):
            gpu_kernels.check_te_linear({}, Context())
        return
    assert set(gpu_kernels.check_te_linear({}, Context())["compared"]) == {
        "output",
        "input gradient",
        "weight gradient",
        "bias gradient",
    }


@pytest.mark.parametrize("shift", [0, 1])
def test_causal_conv1d(monkeypatch: pytest.MonkeyPatch, shift: int) -> None:
    def causal_conv1d_fn(x: Any, weight: Any, bias: Any, activation: str) -> Any:
        taps = weight.shape[1]
        padded = torch.nn.functional.pad(x.float(), (taps - 1 + shift, 0))[..., : x.shape[2] + taps - 1]
        z = torch.nn.functional.conv1d(padded, weight[:, None], bias, groups=x.shape[1])
        return torch.nn.functional.silu(z).to(x.dtype)

    stand_in(monkeypatch, "causal_conv1d", causal_conv1d_fn=causal_conv1d_fn)
    if shift:
        with pytest.raises(CheckError, match="output: "):
            gpu_kernels.check_causal_conv1d({}, Context())
        return
    compared = gpu_kernels.check_causal_conv1d({}, Context())["compared"]
    assert set(compared) == {"output", "input gradient", "weight gradient", "bias gradient"}


@pytest.mark.parametrize("epsilon_used", [1e-6, 1e-1])
def test_sgl_kernel(monkeypatch: pytest.MonkeyPatch, epsilon_used: float) -> None:
    def rmsnorm(x: Any, weight: Any, eps: float) -> Any:
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon_used) * weight.float()).to(x.dtype)

    def silu_and_mul(x: Any) -> Any:
        half = x.shape[-1] // 2
        return torch.nn.functional.silu(x[..., :half].float()).to(x.dtype) * x[..., half:]

    ops = ModuleType("common_ops")
    ops.__file__ = "/site/sgl_kernel/sm90/common_ops.abi3.so"
    stand_in(monkeypatch, "sgl_kernel", rmsnorm=rmsnorm, silu_and_mul=silu_and_mul, common_ops=ops)
    if epsilon_used != 1e-6:
        with pytest.raises(CheckError, match="rmsnorm: "):
            gpu_kernels.check_sgl_kernel({}, Context())
        return
    assert gpu_kernels.check_sgl_kernel({}, Context())["common_ops"] == "sm90"
