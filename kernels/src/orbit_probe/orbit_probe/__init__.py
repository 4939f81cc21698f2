"""Ask a GPU which device code it really loads, and run the one instruction that only it has.

``probe(device)`` returns a :class:`ProbeResult`; ``python -m orbit_probe`` prints it as JSON. Needs nothing but the
NVIDIA driver (``libcuda.so.1``), which is looked for only when a probe runs: importing works anywhere.
"""

from __future__ import annotations

from orbit_probe._images import images
from orbit_probe._library import ProbeError, ProbeResult, probe

__all__ = ["ProbeError", "ProbeResult", "images", "probe"]
