"""The meter sees what a stage's children use."""

from __future__ import annotations

import os
import subprocess
import sys

from orbit.core.meter import Meter, resident_bytes


def test_children_count() -> None:
    block = 80_000_000
    code = f"import time; block = bytearray(b'x') * {block}; print('ready', flush=True); time.sleep(1.2)"
    with Meter() as meter:
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        child.wait()
        child.stdout.close()
    assert meter.peak_bytes > resident_bytes(os.getpid()) * 0.5 + block
    assert meter.seconds >= 1.2


def test_own_memory_is_seen() -> None:
    assert resident_bytes(os.getpid()) > 5_000_000
    assert resident_bytes(2**22 + 1) == 0
