"""What the GPU driver says, asked in a process of its own: it can crash, hang, or say "not yet".

:func:`main` runs there, with the standard library alone: CUDA through ``libcuda.so.1`` (what this job may use) and the
management library NVML (what is plugged in, and how it fares).
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
from typing import Any

from orbit.launch.fingerprint.maps import mapped as mapped_files

CUDA_LIBRARY, NVML_LIBRARY = "libcuda.so.1", "libnvidia-ml.so.1"
NOT_READY = 802
"""CUDA_ERROR_SYSTEM_NOT_READY: on machines with NVSwitch, the fabric manager has not finished (or is not there)."""
MAJOR, MINOR = 75, 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR of cuda.h."""
LINKS = 18
"""NVML_NVLINK_MAX_LINKS of nvml.h."""
THROTTLED = 0x8 | 0x40 | 0x80
"""nvmlClocksEventReasonHwSlowdown, HwThermalSlowdown and HwPowerBrakeSlowdown of nvml.h."""
LOG_LINES = 20000
XID = re.compile(rb"NVRM: Xid \(([^)]*)\): (\d+)")


class Utilised(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def main() -> None:
    """Everything as JSON on stdout."""
    found: dict[str, Any] = {"cuda": ask_cuda(), "nvml": ask_nvml(), "xids": read_xids()}
    found["mapped"] = mapped(CUDA_LIBRARY)
    json.dump(found, sys.stdout)


def ask_cuda() -> dict[str, Any]:
    """Status of cuInit, the driver's CUDA release, and the devices this process may use."""
    try:
        cuda = ctypes.CDLL(CUDA_LIBRARY)
    except OSError as error:
        return {"missing": str(error), "status": -1, "devices": []}
    count, version = ctypes.c_int(), ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(version))
    status = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
    devices = [] if status else [_cuda_device(cuda, index) for index in range(count.value)]
    release = f"{version.value // 1000}.{version.value % 1000 // 10}" if version.value else ""
    return {"missing": "", "status": status, "release": release, "devices": devices}


def _cuda_device(cuda: Any, index: int) -> dict[str, Any]:
    device, major, minor, memory = ctypes.c_int(), ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
    name, uuid = ctypes.create_string_buffer(256), (ctypes.c_ubyte * 16)()
    status = (
        cuda.cuDeviceGet(ctypes.byref(device), index)
        or cuda.cuDeviceGetName(name, len(name), device)
        or cuda.cuDeviceGetAttribute(ctypes.byref(major), MAJOR, device)
        or cuda.cuDeviceGetAttribute(ctypes.byref(minor), MINOR, device)
        or cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    )
    known = getattr(cuda, "cuDeviceGetUuid_v2", None) or cuda.cuDeviceGetUuid
    known(ctypes.byref(uuid), device)
    digits = bytes(uuid).hex()
    return {
        "name": name.value.decode(errors="replace"),
        "uuid": "-".join(("GPU", digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])),
        "capability": f"{major.value}.{minor.value}",
        "memory": memory.value,
        "status": status,
    }


def ask_nvml() -> dict[str, Any]:
    """The driver's release and every device of this container, whether CUDA shows it or not."""
    try:
        nvml = ctypes.CDLL(NVML_LIBRARY)
    except OSError as error:
        return {"missing": str(error), "status": -1, "devices": []}
    status = nvml.nvmlInit_v2()
    if status:
        return {"missing": "", "status": status, "devices": []}
    release, count = ctypes.create_string_buffer(96), ctypes.c_uint()
    nvml.nvmlSystemGetDriverVersion(release, len(release))
    status = nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    devices = [_nvml_device(nvml, index) for index in range(count.value)]
    return {"missing": "", "status": status, "release": release.value.decode(errors="replace"), "devices": devices}


def _nvml_device(nvml: Any, index: int) -> dict[str, Any]:
    device = ctypes.c_void_p()
    found: dict[str, Any] = {"index": index, "status": nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device))}
    if found["status"]:
        return found
    text = ctypes.create_string_buffer(128)
    for key, name in (("name", "nvmlDeviceGetName"), ("uuid", "nvmlDeviceGetUUID")):
        found[key] = text.value.decode(errors="replace") if not _call(nvml, name, device, text, len(text)) else ""
    memory = Utilised()
    if not _call(nvml, "nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory)):
        found |= {"total": memory.total, "used": memory.used}
    found |= _health(nvml, device)
    links = [_number(nvml, "nvmlDeviceGetNvLinkState", device, link) for link in range(LINKS)]
    if any(link is not None for link in links):
        found["links"] = links.count(1)
    return found


def _health(nvml: Any, device: ctypes.c_void_p) -> dict[str, Any]:
    """Of one device; what it cannot tell is left out."""
    found: dict[str, Any] = {}
    errors = ctypes.c_ulonglong()
    if not _call(nvml, "nvmlDeviceGetTotalEccErrors", device, 1, 0, ctypes.byref(errors)):  # uncorrected, since boot
        found["ecc"] = errors.value
    rows = [ctypes.c_uint() for _ in range(4)]  # corrected, uncorrected, pending, failed
    if not _call(nvml, "nvmlDeviceGetRemappedRows", device, *map(ctypes.byref, rows)):
        found |= {"rows_pending": rows[2].value, "rows_failed": rows[3].value}
    found["pages_pending"] = _number(nvml, "nvmlDeviceGetRetiredPagesPendingStatus", device)
    found["compute_mode"] = _number(nvml, "nvmlDeviceGetComputeMode", device)
    found["temperature"] = _number(nvml, "nvmlDeviceGetTemperature", device, 0)
    mig, pending = ctypes.c_uint(), ctypes.c_uint()
    if not _call(nvml, "nvmlDeviceGetMigMode", device, ctypes.byref(mig), ctypes.byref(pending)):
        found["mig"] = mig.value
    reasons = ctypes.c_ulonglong()
    if not _call(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", device, ctypes.byref(reasons)):
        found["slowed"] = bool(reasons.value & THROTTLED)
    return {key: value for key, value in found.items() if value is not None}


def _number(nvml: Any, name: str, *arguments: object) -> int | None:
    value = ctypes.c_uint()
    return None if _call(nvml, name, *arguments, ctypes.byref(value)) else value.value


def _call(nvml: Any, name: str, *arguments: object) -> int:
    """Status of a function of NVML; one that this release does not have is "not supported"."""
    function = getattr(nvml, name, None)
    return 3 if function is None else int(function(*arguments))


def mapped(library: str) -> str:
    """The file that is mapped into this process under the name of ``library``, links followed; empty when none is."""
    stem = library.partition(".so")[0] + ".so"
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            files = mapped_files(file.read())
    except OSError:
        return ""
    return next((os.path.realpath(each.path) for each in files if os.path.basename(each.path).startswith(stem)), "")


def read_xids(log: str = "/dev/kmsg") -> list[tuple[str, int]]:
    """Device and number of each Xid in the kernel's log, oldest first; nothing where it may not be read (usual)."""
    found: list[tuple[str, int]] = []
    try:
        handle = os.open(log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        for _ in range(LOG_LINES):
            record = os.read(handle, 8192)
            if not record:
                break
            found += [(match[1].decode(errors="replace"), int(match[2])) for match in XID.finditer(record)]
    except OSError:  # nothing more (EAGAIN), or overwritten while it was read
        pass
    finally:
        os.close(handle)
    return found


def sample_devices() -> list[dict[str, int]]:
    """Temperature (C), power (W) and clock (MHz) of each device at this moment; what one does not tell is left out."""
    try:
        nvml = ctypes.CDLL(NVML_LIBRARY)
    except OSError:
        return []
    count = ctypes.c_uint()
    if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)):
        return []
    found = []
    for index in range(count.value):
        device = ctypes.c_void_p()
        if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)):
            continue
        milliwatts = _number(nvml, "nvmlDeviceGetPowerUsage", device)
        values = {
            "temperature": _number(nvml, "nvmlDeviceGetTemperature", device, 0),
            "power_w": None if milliwatts is None else milliwatts // 1000,
            "clock_mhz": _number(nvml, "nvmlDeviceGetClockInfo", device, 1),
        }
        found.append({key: value for key, value in values.items() if value is not None})
    return found
