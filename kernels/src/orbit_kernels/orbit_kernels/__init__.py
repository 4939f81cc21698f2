"""Orbit's own CUDA kernels as torch custom ops.

Importing this package needs neither torch nor a driver; an op's module is imported, and its op registered with torch,
when one of its names is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from orbit_kernels._library import Image, KernelError, image

if TYPE_CHECKING:
    from orbit_kernels.logprob import token_logprob, vocab_parallel_token_logprob
    from orbit_kernels.oft import cayley_neumann
    from orbit_kernels.rotation import block_rotation

_MODULES = {
    "block_rotation": "orbit_kernels.rotation",
    "cayley_neumann": "orbit_kernels.oft",
    "token_logprob": "orbit_kernels.logprob",
    "vocab_parallel_token_logprob": "orbit_kernels.logprob",
}
"""Public name -> its module, which must not be called like one of the names: importing it would hide the name."""

__all__ = [
    "Image",
    "KernelError",
    "block_rotation",
    "cayley_neumann",
    "image",
    "token_logprob",
    "vocab_parallel_token_logprob",
]


def __getattr__(name: str) -> Any:
    """Import the module of a public name at its first use."""
    if name not in _MODULES:
        raise AttributeError(f"module 'orbit_kernels' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """Public names, imported or not."""
    return sorted({*globals(), *_MODULES})
