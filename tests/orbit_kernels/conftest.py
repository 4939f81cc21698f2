"""The package is tested from its source tree; what needs torch is skipped where torch is not installed."""

from __future__ import annotations

import sys

from tests.source import ROOT

SOURCE = ROOT / "kernels" / "src" / "orbit_kernels"

if str(SOURCE) not in sys.path:
    sys.path.insert(0, str(SOURCE))
