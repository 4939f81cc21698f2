"""What computes: device, driver, and the versions of what is loaded into this process, not of what is installed."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
from importlib import metadata
from pathlib import Path
from typing import Literal

import torch

from orbit.qualify.environment import own_environment
from orbit.qualify.records import Device, Identity

PACKAGES = ("triton", "sglang-kernel", "sgl-kernel", "orbit-kernels", "transformer-engine", "causal-conv1d")
VARIABLES = re.compile(
    r"(CUBLAS|CUDNN|NVTE|NVIDIA_TF32|PYTORCH|TORCH|MKL|ATEN|ONEDNN|DNNL|CUDA_(DISABLE|FORCE|LAUNCH))\w*"
)


def identity_of(kind: Literal["cpu", "cuda"]) -> Identity:
    """Of this process, on the first device of ``kind``."""
    return Identity(
        device=_gpu() if kind == "cuda" else _cpu(),
        versions={name: value for name, value in _versions(kind).items() if value},
        environment=str(own_environment().get("identity", "")),
        variables=_variables(),
    )


def _variables() -> dict[str, str]:
    """Those that change numbers; not the ones that name a folder, or what extensions are compiled for."""
    found = sorted(os.environ.items())
    chosen = {name: value for name, value in found if VARIABLES.fullmatch(name) and "/" not in value}
    chosen.pop("TORCH_CUDA_ARCH_LIST", None)
    return chosen


def _gpu() -> Device:
    major, minor = torch.cuda.get_device_capability(0)
    return Device(
        kind="cuda",
        name=torch.cuda.get_device_name(0),
        architecture=f"sm_{major}{minor}",
        capability=f"{major}.{minor}",
        driver=_driver(),
    )


def _cpu() -> Device:
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    vector = torch.backends.cpu.get_cpu_capability()
    return Device(kind="cpu", name=name, architecture=f"{platform.machine()} {vector}")


def _driver() -> str:
    """Version of NVIDIA's driver (nvmlSystemGetDriverVersion)."""
    with contextlib.suppress(OSError):
        library = ctypes.CDLL("libnvidia-ml.so.1")
        text = ctypes.create_string_buffer(96)
        if library.nvmlInit_v2() == 0 and library.nvmlSystemGetDriverVersion(text, len(text)) == 0:
            return text.value.decode()
    return ""


def _versions(kind: str) -> dict[str, str]:
    found = {"python": platform.python_version(), "torch": str(torch.__version__)}
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    if kind == "cuda":
        found |= {
            "cuda-runtime": _cuda_runtime(),
            "cudnn": str(torch.backends.cudnn.version() or ""),
            "cublas": _cublas(),
            "nccl": ".".join(str(part) for part in torch.cuda.nccl.version()),
        }
    return found


def loaded(stem: str) -> str:
    """Path of the library ``stem.so...`` that is mapped into this process; empty when none is."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    found = re.search(rf"\s(/\S*/{re.escape(stem)}\.so\S*)", maps)
    return found[1] if found else ""


def _cuda_runtime() -> str:
    path = loaded("libcudart")
    value = ctypes.c_int(0)
    if path and ctypes.CDLL(path).cudaRuntimeGetVersion(ctypes.byref(value)) == 0:
        return f"{value.value // 1000}.{value.value % 1000 // 10}"
    return str(torch.version.cuda or "")


def _cublas() -> str:
    """Of the library that is loaded (cublasGetProperty: 0 major, 1 minor, 2 patch)."""
    path = loaded("libcublas")
    if not path:
        return ""
    library, parts = ctypes.CDLL(path), []
    for which in range(3):
        value = ctypes.c_int(0)
        if library.cublasGetProperty(which, ctypes.byref(value)) != 0:
            return ""
        parts.append(str(value.value))
    return ".".join(parts)
