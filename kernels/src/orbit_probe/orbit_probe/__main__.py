"""``python -m orbit_probe [DEVICE]``: one JSON object on stdout; exit 0 right, 1 wrong result, 3 nothing to run on."""

from __future__ import annotations

import dataclasses
import json
import sys

from orbit_probe import ProbeError, images, probe


def main() -> int:
    """Probe one device and print what was seen."""
    device = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    try:
        result = probe(device)
    except ProbeError as error:
        _show({"status": error.status, "error": str(error), "images": images()})
        return 1 if error.status == "wrong-result" else 3
    _show({"status": "ok", **dataclasses.asdict(result), "images": images()})
    return 0


def _show(value: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
