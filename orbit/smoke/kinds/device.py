"""The CUDA device as the driver describes it, through ``libcuda.so.1`` alone (no torch: the probe image has none)."""

from __future__ import annotations

import ctypes
from typing import Any

from orbit.smoke.model import CheckError, Context, Target

ATTRIBUTE_MAJOR = 75
ATTRIBUTE_MINOR = 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR of cuda.h."""


def device_count() -> int:
    """How many devices the driver shows this process."""
    driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    _call(driver.cuInit, 0)
    _call(driver.cuDeviceGetCount, ctypes.byref(count))
    return count.value


def describe(index: int = 0) -> dict[str, Any]:
    """Name, compute capability and memory of device ``index``, and the driver's CUDA version."""
    driver = ctypes.CDLL("libcuda.so.1")
    _call(driver.cuInit, 0)
    version, device, major, minor = (ctypes.c_int() for _ in range(4))
    name, memory = ctypes.create_string_buffer(256), ctypes.c_size_t()
    _call(driver.cuDriverGetVersion, ctypes.byref(version))
    _call(driver.cuDeviceGet, ctypes.byref(device), index)
    _call(driver.cuDeviceGetName, name, len(name), device)
    _call(driver.cuDeviceGetAttribute, ctypes.byref(major), ATTRIBUTE_MAJOR, device)
    _call(driver.cuDeviceGetAttribute, ctypes.byref(minor), ATTRIBUTE_MINOR, device)
    _call(driver.cuDeviceTotalMem_v2, ctypes.byref(memory), device)
    return {
        "device": name.value.decode(errors="replace"),
        "capability": f"{major.value}.{minor.value}",
        "memory_bytes": memory.value,
        "driver_cuda": f"{version.value // 1000}.{version.value % 1000 // 10}",
    }


def target_of(capability: str, context: Context) -> Target:
    """The profile's target of this compute capability; :class:`CheckError` when it has none."""
    for target in context.targets:
        if target.capability == capability:
            return target
    known = ", ".join(f"{target.name} ({target.capability})" for target in context.targets)
    raise CheckError(f"compute capability {capability} is none of the profile's targets: {known}")


def _call(function: Any, *arguments: object) -> None:
    status = function(*arguments)
    if status != 0:
        raise CheckError(f"{function.__name__} answers with CUDA error {status}")
