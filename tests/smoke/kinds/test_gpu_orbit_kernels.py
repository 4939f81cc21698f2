"""The checks of Orbit's own kernels with the CPU implementation in their place: right passes, subtly wrong does not.

This tests the references and bounds, not the kernels; what a kernel does is seen only on a device. Needs torch (CPU).
"""

from __future__ import annotations

import importlib
import tomllib
from typing import Any

import pytest

from orbit.smoke.kinds import gpu_orbit_kernels
from orbit.smoke.model import CheckError, Context
from tests.source import ROOT

torch: Any = pytest.importorskip("torch", reason="torch is not installed here (the stack is in the image)")


@pytest.fixture(autouse=True)
def package(monkeypatch: pytest.MonkeyPatch) -> Any:
    """orbit_kernels from the source tree, on the CPU, saying that it runs machine code for capability 9.0."""
    monkeypatch.syspath_prepend(ROOT / "kernels" / "src" / "orbit_kernels")
    import orbit_kernels

    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device: (9, 0))
    monkeypatch.setattr(orbit_kernels, "image", lambda _device: orbit_kernels.Image(90, 90))
    return orbit_kernels


def test_token_logprob() -> None:
    facts = gpu_orbit_kernels.check_token_logprob({}, Context())
    assert set(facts["compared"]) == {"log-prob", "entropy", "gradient"}
    assert facts["code"] == "sm_90"


@pytest.mark.parametrize("wrong", ["logprob", "entropy", "gradient"])
def test_a_little_off_is_seen(package: Any, monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    right = package.token_logprob

    def off(logits: Any, targets: Any, *, temperature: float) -> Any:
        scale = 1.0 + 1e-4 * (wrong == "gradient")
        temperature *= 1.0 + 1e-2 * (wrong == "gradient")
        logprob, entropy = right(logits * scale, targets, temperature=temperature)
        return logprob + 1e-4 * (wrong == "logprob"), entropy * (1.0 + 1e-4 * (wrong == "entropy"))

    monkeypatch.setattr(package, "token_logprob", off)
    with pytest.raises(CheckError, match="more than rounding explains"):
        gpu_orbit_kernels.check_token_logprob({}, Context())


@pytest.mark.parametrize("image", [None, (100, 100), (80, 80)])
def test_other_machine_code_is_refused(package: Any, monkeypatch: pytest.MonkeyPatch, image: Any) -> None:
    monkeypatch.setattr(package, "image", lambda _device: image and package.Image(*image))
    with pytest.raises(CheckError, match=r"no machine code for capability \(9, 0\)"):
        gpu_orbit_kernels.check_token_logprob({}, Context())


SMALL = {"tokens": 1000, "features": 768}


def test_block_rotation() -> None:
    facts = gpu_orbit_kernels.check_block_rotation(SMALL, Context())
    assert len(facts["compared"]) == 9
    assert facts["programs"][256] == "matmul"
    assert all(values["share_of_bound"] < 1 for values in facts["compared"].values())


def test_the_list_asks_for_enough_to_be_worth_our_kernels(package: Any) -> None:
    rotation = importlib.import_module("orbit_kernels.rotation")
    checks = tomllib.loads((ROOT / "containers" / "smoke" / "gpu.toml").read_text())["checks"]
    (asked,) = [check["parameters"] for check in checks if check["kind"] == "gpu-block-rotation"]
    values = asked["tokens"] * asked["features"]
    for block in (32, 128):
        for task in ("rotate", "grads"):
            assert rotation.choose(task, block, torch.bfloat16, values=values, has_code=True).name == "kernel"


@pytest.mark.parametrize("wrong", ["transposed", "one percent too large", "gradient in bfloat16"])
def test_another_rotation_is_seen(package: Any, monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    right = package.block_rotation

    def off(x: Any, rotation: Any) -> Any:
        if wrong == "transposed":
            return right(x, rotation.mT)
        if wrong == "one percent too large":
            return right(x, rotation) * 1.01
        return right(x, rotation.bfloat16())

    monkeypatch.setattr(package, "block_rotation", off)
    with pytest.raises(CheckError, match="more than rounding explains"):
        gpu_orbit_kernels.check_block_rotation(SMALL, Context())


def test_the_cpu_implementation(package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpu_orbit_kernels.check_token_logprob_cpu({}, Context())["values"][2:] == pytest.approx([0.75, -0.75])
    right = package.token_logprob
    monkeypatch.setattr(package, "token_logprob", lambda *a: [each * (1 + 1e-12) for each in right(*a)])
    with pytest.raises(CheckError, match="known by hand"):
        gpu_orbit_kernels.check_token_logprob_cpu({}, Context())
