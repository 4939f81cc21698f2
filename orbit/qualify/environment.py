"""The environment that this interpreter belongs to, by what it says of itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

RECORD = Path("share", "orbit", "environment.json")


def own_environment(prefix: str = "") -> dict[str, Any]:
    """``environment.json`` of this interpreter's prefix (or of ``prefix``); empty outside Orbit's environments."""
    try:
        record = json.loads(Path(prefix or sys.prefix, RECORD).read_bytes())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
