"""How many GPUs torch sees, in a process of its own: a driver can crash, and torch takes seconds to import."""

from __future__ import annotations

import torch


def main() -> None:
    """Print the word ``devices`` and their number."""
    print("devices", torch.cuda.device_count() if torch.cuda.is_available() else 0)  # noqa: T201 - read by the caller
