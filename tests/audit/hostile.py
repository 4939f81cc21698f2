"""Run the audit as a user does, in a process that may not take more than so much memory and time; hostile targets."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import orbit

MEMORY_BYTES = 2 << 30
TIMEOUT_S = 20.0
STATUS = (0, 1, 2, 3)
"""What an audit may end with, whatever it is given."""
PROGRAM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
sys.path.insert(0, sys.argv[2])
from orbit.cli import main
status = main(sys.argv[3:])
sys.stdout.flush()
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")), file=sys.stderr)
sys.exit(status)
"""


@dataclass(frozen=True)
class Ended:
    """How a call ended."""

    status: int
    out: bytes
    said: str
    peak_bytes: int
    seconds: float


def audit(*arguments: str | Path, cache: Path, memory: int = MEMORY_BYTES, timeout_s: float = TIMEOUT_S) -> Ended:
    """``orbit audit`` with these arguments. Fails the test when it takes too long, crashes, or leaves a trace."""
    root = str(Path(orbit.__file__).parent.parent)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(memory), root, "audit", *arguments],
        capture_output=True,
        timeout=timeout_s,
        check=False,
        env=os.environ | {"ORBIT_CACHE": str(cache), "NO_COLOR": "1", "PYTHONIOENCODING": "ascii"},
        cwd=cache.parent,
    )
    said = done.stderr.decode("utf-8", "replace")
    assert done.returncode in STATUS, f"exit status {done.returncode}\n{said[-3000:]}"
    assert "Traceback" not in said, said[-3000:]
    peak = said.rstrip().rpartition("\n")[2]
    return Ended(done.returncode, done.stdout, said, int(peak) << 10, time.monotonic() - began)
