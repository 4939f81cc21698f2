"""The C ABI of liborbit_probe.so through ctypes; see csrc/probe.h for the meaning of every field."""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from dataclasses import dataclass

from orbit_probe._images import LIBRARY, images

ABI = 1
STATUS = {
    1: ("no-driver", "needs libcuda.so.1: no NVIDIA driver on this machine, or not visible in this container"),
    2: ("old-driver", "the NVIDIA driver is older than the CUDA release this library was built with: update it"),
    3: (
        "no-device",
        "the driver shows no such GPU: check nvidia-smi, CUDA_VISIBLE_DEVICES and the container's devices",
    ),
    4: ("no-image", "no device code in this library runs on this GPU"),
    5: ("wrong-result", "the device instruction ran and its result differs from the float64 reference"),
    6: ("cuda-error", "a CUDA call failed"),
    7: ("bad-argument", "the library and this package do not belong together: install orbit-probe again"),
}
INSTRUCTION = {0: "none", 1: "wgmma", 2: "tcgen05"}
FORCE_JIT = ("CUDA_FORCE_PTX_JIT", "CUDA_FORCE_JIT")
_LOCK = threading.Lock()


class ProbeError(Exception):
    """No result: ``status`` is one word (``no-driver``, ``no-device``, ``no-image``, ...), the text says what to do."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class ProbeResult:
    """What one device loaded and computed."""

    device: int
    name: str
    capability: str
    """Compute capability, ``9.0``."""
    arch: str
    """Architecture of the code that ran, with its suffix: ``sm_90a``."""
    mode: str
    """``sass``: machine code from the file; ``ptx-jit``: compiled by the driver at run time."""
    instruction: str
    """``wgmma``, ``tcgen05``, or ``none`` for code without a device's own instruction."""
    values_checked: int
    max_abs_error: float
    """Against a float64 reference; 0.0, since all values are exact."""
    ptx_version: int
    binary_version: int
    driver_version: int
    """13000 means CUDA 13.0."""
    runtime_version: int


class _Result(ctypes.Structure):
    _fields_ = [
        ("struct_bytes", ctypes.c_uint32),
        ("status", ctypes.c_int32),
        ("cuda_error", ctypes.c_int32),
        ("major", ctypes.c_int32),
        ("minor", ctypes.c_int32),
        ("driver_version", ctypes.c_int32),
        ("runtime_version", ctypes.c_int32),
        ("cuda_arch", ctypes.c_int32),
        ("feature_sm90", ctypes.c_int32),
        ("feature_sm100", ctypes.c_int32),
        ("ptx_version", ctypes.c_int32),
        ("binary_version", ctypes.c_int32),
        ("instruction", ctypes.c_int32),
        ("values_checked", ctypes.c_int32),
        ("max_abs_error", ctypes.c_double),
        ("device_name", ctypes.c_char * 256),
        ("step", ctypes.c_char * 32),
        ("cuda_error_name", ctypes.c_char * 64),
    ]


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(LIBRARY))
    library.orbit_probe_abi.restype = ctypes.c_int32
    library.orbit_probe_run.restype = ctypes.c_int32
    library.orbit_probe_run.argtypes = [ctypes.c_int32, ctypes.POINTER(_Result)]
    if library.orbit_probe_abi() != ABI:
        raise ProbeError(*STATUS[7])
    return library


def probe(device: int = 0) -> ProbeResult:
    """Run the probe on CUDA device ``device``. Raises :class:`ProbeError` when there is no right result to report."""
    raw = _Result(struct_bytes=ctypes.sizeof(_Result))
    with _LOCK:
        status = int(_library().orbit_probe_run(device, ctypes.byref(raw)))
    if status != 0:
        raise ProbeError(STATUS[status][0], _explain(status, raw))
    arch = _arch(raw)
    return ProbeResult(
        device=device,
        name=raw.device_name.decode(),
        capability=f"{raw.major}.{raw.minor}",
        arch=arch,
        mode=_mode(arch, raw),
        instruction=INSTRUCTION[raw.instruction],
        values_checked=raw.values_checked,
        max_abs_error=raw.max_abs_error,
        ptx_version=raw.ptx_version,
        binary_version=raw.binary_version,
        driver_version=raw.driver_version,
        runtime_version=raw.runtime_version,
    )


def _arch(raw: _Result) -> str:
    """The code says of itself which architecture and feature set it was compiled for."""
    suffix = "a" if raw.feature_sm90 or raw.feature_sm100 else ""
    return f"sm_{raw.cuda_arch // 10}{suffix}"


def _mode(arch: str, raw: _Result) -> str:
    """Machine code from the file, or the driver's compiler.

    The driver takes machine code that fits before PTX, unless a variable forbids it; code made by its compiler has the
    device's own number as binary version.
    """
    if any(os.environ.get(name, "0") not in ("", "0") for name in FORCE_JIT):
        return "ptx-jit"
    if arch in images() and raw.binary_version == raw.cuda_arch // 10:
        return "sass"
    return "ptx-jit"


def _explain(status: int, raw: _Result) -> str:
    text = STATUS[status][1]
    if raw.device_name:
        text += f"; device {raw.device_name.decode()} of capability {raw.major}.{raw.minor}"
    if status == 4:
        text += f"; the library holds {', '.join(images())}"
    if raw.cuda_error:
        text += f" ({raw.cuda_error_name.decode()} from {raw.step.decode()})"
    return text
