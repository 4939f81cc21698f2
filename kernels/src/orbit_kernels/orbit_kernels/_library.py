"""liborbit_kernels.so through ctypes: loading, typed signatures, statuses turned into errors.

An op module declares the C functions it uses::

    STATS = declare("orbit_token_logprob_stats", POINTER, INT64, FLOAT, POINTER)
    STATS(tensor.data_ptr(), 4, 1.0, stream)          # raises KernelError on any status but 0

Nothing is loaded before the first call, so importing works without a driver, and without the library in a source tree.
"""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIBRARY = Path(__file__).with_name("liborbit_kernels.so")
ABI = 1

POINTER = ctypes.c_void_p
"""A device pointer (``tensor.data_ptr()``), a stream handle, or None."""
INT32, INT64, FLOAT = ctypes.c_int32, ctypes.c_int64, ctypes.c_float
INT32_POINTER = ctypes.POINTER(ctypes.c_int32)

NO_IMAGE = (98, 209)
"""cudaErrorInvalidDeviceFunction and cudaErrorNoKernelImageForDevice: nothing in the library runs on that GPU."""


class KernelError(RuntimeError):
    """The library is missing, does not fit this package, or a call failed; the text says which and what to do."""


@dataclass(frozen=True, slots=True)
class Image:
    """Device code a GPU loads from the library."""

    binary_version: int
    """Architecture of the machine code: 90 for ``sm_90a``."""
    ptx_version: int
    """Virtual architecture it was compiled from."""


@dataclass(frozen=True, slots=True)
class Function:
    """One C function that returns a status; calling it raises :class:`KernelError` unless the status is 0."""

    name: str
    arguments: tuple[Any, ...]
    """ctypes type of every argument, in the order of the C source."""

    def __call__(self, *arguments: object) -> None:
        """Call it; pointers as integers."""
        status = _bound(self)(*arguments)
        if status != 0:
            raise KernelError(f"{self.name}: {_error(status)} (status {status})")


FUNCTIONS: dict[str, Function] = {}
"""Every declared function by name; a test compares them with the C sources."""


def declare(name: str, *arguments: Any) -> Function:
    """Say how ``name`` of the library is called. It is looked up at its first call."""
    return FUNCTIONS.setdefault(name, Function(name, arguments))


IMAGE = declare("orbit_kernels_image", INT32, INT32_POINTER, INT32_POINTER)


@functools.cache
def library() -> ctypes.CDLL:
    """The loaded library. Raises :class:`KernelError` when it is missing or of another version."""
    if not LIBRARY.is_file():
        raise KernelError(
            f"{LIBRARY}: not there; this is a source tree, CUDA tensors need the wheel (orbit kernels build)"
        )
    loaded = ctypes.CDLL(str(LIBRARY))
    loaded.orbit_kernels_abi.restype = ctypes.c_int32
    loaded.orbit_kernels_error.restype = ctypes.c_char_p
    loaded.orbit_kernels_error.argtypes = [ctypes.c_int32]
    found = loaded.orbit_kernels_abi()
    if found != ABI:
        raise KernelError(f"{LIBRARY}: ABI {found}, this package needs {ABI}: install the orbit-kernels wheel again")
    return loaded


@functools.cache
def image(device: int) -> Image | None:
    """The device code that CUDA device ``device`` loads, or None when the library has none for it.

    Raises :class:`KernelError` for any other reason: no driver, no such device.
    """
    binary, ptx = ctypes.c_int32(), ctypes.c_int32()
    status = _bound(IMAGE)(device, ctypes.byref(binary), ctypes.byref(ptx))
    if status in NO_IMAGE:
        return None
    if status != 0:
        raise KernelError(f"CUDA device {device}: {_error(status)} (status {status})")
    return Image(binary.value, ptx.value)


@functools.cache
def _bound(function: Function) -> Any:
    pointer = getattr(library(), function.name)
    pointer.restype = ctypes.c_int32
    pointer.argtypes = list(function.arguments)
    return pointer


def _error(status: int) -> str:
    text: bytes = library().orbit_kernels_error(status)
    return text.decode()
