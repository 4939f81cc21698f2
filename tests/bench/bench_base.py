"""What the base costs: packages fetched and installed (cold), installed from the store (warm), and again (nothing).

    python tests/bench/bench_base.py [--rounds N] [--as-is]

Each step is a process of its own in a store made for the run: wall seconds, CPU seconds and peak memory of it and its
children, and the sha256, which must be the same in all rounds. ``--as-is`` leaves ORBIT_SOURCES set: then "cold"
fetches nothing from the network. Packages come from ORBIT_DEBIAN, else from the archive of this machine's apt.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from orbit.core.files import remove_tree
from orbit.image.base.definition import load_base
from orbit.image.base.lock import read_base_lock

STEP = """
import sys
from pathlib import Path
from orbit.core.console import Silent
from orbit.core.store import Store
from orbit.image.base import make_base
base = make_base("base", Store(Path(sys.argv[1])), progress=Silent())
print(base.sha256, base.files, len(base.packages), base.tar.stat().st_size)
"""


def step(store: Path, environment: dict[str, str]) -> dict[str, float | str]:
    """One run of make_base in a process of its own."""
    began = time.monotonic()
    with subprocess.Popen([sys.executable, "-c", STEP, str(store)], stdout=subprocess.PIPE, env=environment) as child:
        assert child.stdout is not None
        said = child.stdout.read().decode().split()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, child.returncode
    return {
        "sha256": said[0],
        "files": int(said[1]),
        "packages": int(said[2]),
        "tar_bytes": int(said[3]),
        "wall_s": round(time.monotonic() - began, 2),
        "cpu_s": round(used.ru_utime + used.ru_stime, 2),
        "peak_mb": used.ru_maxrss // 1024,
    }


def main() -> None:
    """Print one line of JSON for each step, and a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--as-is", action="store_true")
    args = parser.parse_args()
    environment = {name: value for name, value in os.environ.items() if args.as_is or name != "ORBIT_SOURCES"}
    lock = read_base_lock("base", load_base("base"))
    digests = set()
    for number in range(args.rounds):
        with tempfile.TemporaryDirectory(prefix="orbit-bench-") as folder:
            store = Path(folder) / "store"
            for name in ("cold", "warm", "nothing"):
                if name == "warm":
                    remove_tree(store / "entries" / "base")
                facts = step(store, environment)
                digests.add(facts["sha256"])
                print(json.dumps({"round": number, "step": name, **facts}), flush=True)
    assert len(digests) == 1, digests
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{len(lock.packages)} packages, {lock.size / 1e6:.1f} MB; equal in all rounds; this process {own} MB")


if __name__ == "__main__":
    main()
