"""torch_cpu, gpu_triton and triton_kernel on the CPU. Needs torch, and Triton for its interpreter."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from orbit.core.proc import run
from orbit.smoke.kinds.gpu_triton import check_triton
from orbit.smoke.kinds.torch_cpu import check_torch_cpu
from orbit.smoke.model import CheckError, Context

torch: Any = pytest.importorskip("torch", reason="torch is not installed here (the stack is in the image)")

INTERPRETED = """
import torch
from orbit.smoke.kinds import numerics
from orbit.smoke.kinds.gpu import product_bound
from orbit.smoke.kinds.triton_kernel import matmul

torch.manual_seed(1)  # float16, because the interpreter computes on the bit patterns of bfloat16
left, right = torch.randn(128, 192).half(), torch.randn(192, 64).half()
print(numerics.compare("triton", matmul(left, right), *product_bound(left, right)))
"""


def test_torch_is_exact_and_of_the_right_release(monkeypatch: pytest.MonkeyPatch) -> None:
    release = str(torch.version.cuda)
    assert check_torch_cpu({}, Context(cuda=release))["cuda"] == release
    with pytest.raises(CheckError, match="the profile's release is 99.9".replace(".", "[.]")):
        check_torch_cpu({}, Context(cuda="99.9"))
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: torch.matmul(a, b) + 1)
    with pytest.raises(CheckError, match="not exact"):
        check_torch_cpu({}, Context())


def test_a_result_without_a_compilation_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = ModuleType("orbit.smoke.kinds.triton_kernel")
    vars(kernel).update(matmul=lambda left, right: left @ right)
    monkeypatch.setitem(sys.modules, kernel.__name__, kernel)
    monkeypatch.setenv("TRITON_CACHE_DIR", "")
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self)
    with pytest.raises(CheckError, match=r"made no \.cubin"):
        check_triton({}, Context())


@pytest.mark.integration
def test_the_kernel_in_tritons_interpreter() -> None:
    pytest.importorskip("triton", reason="triton is not installed here")
    root = Path(__file__).resolve().parents[3]
    path = os.pathsep.join([str(root), *(p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p)])
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": path}
    done = run([sys.executable, "-c", INTERPRETED], doing="running a Triton kernel on the CPU", env=env, timeout_s=120)
    assert "share_of_bound" in done.stdout.decode()
