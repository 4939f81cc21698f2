"""Our count of device code in libraries against NVIDIA's own: ``cuobjdump --list-elf`` and ``--list-ptx``.

    python -m tests.gpu.listing_truth LIBRARY...

Needs cuobjdump and Orbit's upper floor; no GPU. Exit status: 0 all counts are equal, 1 some differ, 3 no cuobjdump.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from orbit.audit.binary.fatbin import read_containers


def ours(path: Path) -> Counter[str]:
    """Images by architecture and kind. cuobjdump shows no ``f`` of an architecture, and ``.nv_fatbin`` alone."""
    return Counter(
        f"{image.arch.rstrip('f').replace('compute_', 'sm_')}.{image.kind}"
        for box in read_containers(path)
        if box.section == ".nv_fatbin"
        for image in box.images
    )


def theirs(path: Path) -> Counter[str]:
    """The same from cuobjdump's lists."""
    found: Counter[str] = Counter()
    for flag, kind in (("--list-elf", "elf"), ("--list-ptx", "ptx")):
        done = subprocess.run(["cuobjdump", flag, path], capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            arch = next((part for part in line.replace("-", ".").split(".") if part.startswith("sm_")), line)
            found[f"{arch}.{kind}"] += 1
    return found


def main(paths: list[Path]) -> int:
    """Compare each library."""
    if shutil.which("cuobjdump") is None:
        print("listing_truth: cuobjdump is not on PATH", file=sys.stderr)
        return 3
    wrong = 0
    for path in paths:
        began = time.monotonic()
        mine = ours(path)
        middle = time.monotonic()
        his = theirs(path)
        took = f"{middle - began:.2f} s, cuobjdump {time.monotonic() - middle:.2f} s"
        wrong += mine != his
        print(f"{path.name}: {'equal' if mine == his else 'DIFFERENT'}: {sum(mine.values())} images ({took})")
        print("   ", " ".join(f"{arch}:{count}" for arch, count in sorted(mine.items())))
        if mine != his:
            print("    cuobjdump:", " ".join(f"{arch}:{count}" for arch, count in sorted(his.items())))
    return 1 if wrong or not paths else 0


if __name__ == "__main__":
    sys.exit(main([Path(argument) for argument in sys.argv[1:]]))
