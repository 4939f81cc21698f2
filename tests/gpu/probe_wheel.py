"""Check a built orbit-probe wheel on a machine with a GPU. Needs Python, the wheel and the NVIDIA driver, nothing else.

    python tests/gpu/probe_wheel.py orbit_probe-*.whl

Unpacks the wheel into a temporary folder and asks for every GPU: does the driver load the machine code for exactly this
device, does its own instruction run, are all values right? Then the same with the driver told to ignore machine code,
which must fail, because the wheel carries no PTX. Prints one JSON object; exit 0 when everything is as it must be.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

EXPECTED = {"9.0": ("sm_90a", "wgmma"), "10.0": ("sm_100a", "tcgen05")}


def run_probe(folder: str, device: int, **extra: str) -> dict[str, object]:
    """What ``python -m orbit_probe`` says, and its exit status."""
    done = subprocess.run(
        [sys.executable, "-m", "orbit_probe", str(device)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": folder, **extra},
        check=False,
    )
    try:
        return {**json.loads(done.stdout), "exit": done.returncode}
    except ValueError:
        return {"status": "no answer", "exit": done.returncode, "stderr": done.stderr[-2000:]}


def problems(seen: dict[str, object], forced: dict[str, object]) -> list[str]:
    """What is not as it must be, in words."""
    found = []
    expected = EXPECTED.get(str(seen.get("capability")))
    if seen["status"] != "ok":
        found.append(f"the probe failed: {seen}")
    elif expected is None:
        found.append(f"capability {seen['capability']} is none of the wheel's targets")
    else:
        if (seen["arch"], seen["instruction"], seen["mode"]) != (*expected, "sass"):
            found.append(f"loaded {seen['arch']} {seen['instruction']} by {seen['mode']}, expected {expected} by sass")
        if seen["values_checked"] != 512 or seen["max_abs_error"] != 0.0:
            found.append(f"{seen['values_checked']} values checked, largest error {seen['max_abs_error']}")
    if forced["status"] != "no-image":
        found.append(f"with machine code ignored the probe must find no image, it says {forced['status']}")
    return found


def main(wheel: str) -> int:
    """Check every visible device."""
    results, device = [], 0
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(Path(wheel)) as archive:
            archive.extractall(folder)
        while True:
            seen = run_probe(folder, device)
            if device > 0 and seen["status"] == "no-device":
                break
            forced = run_probe(folder, device, CUDA_FORCE_PTX_JIT="1")
            results.append({"seen": seen, "forced_jit": forced, "problems": problems(seen, forced)})
            if seen["status"] in ("no-driver", "no-device", "no answer"):
                break
            device += 1
    print(json.dumps(results, indent=2))
    return 1 if any(result["problems"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
