"""What the tests of Nix share: evaluating our own files without any input, and running the harness."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
HARNESS = ROOT / "nix" / "tests" / "harness.sh"
# Reading needs no store; without this nix would make one at /nix.
NO_STORE = {**os.environ, "NIX_REMOTE": "dummy://"}


def need_nix() -> str:
    """The program nix-instantiate; skips where it is not installed."""
    nix = shutil.which("nix-instantiate")
    if nix is None:
        pytest.skip("nix is not installed")
    return nix


def evaluate(expression: str) -> Any:
    """The value of an expression over our own files, no input and no store needed; skips without nix."""
    nix = need_nix()
    done = subprocess.run(
        [nix, "--eval", "--strict", "--json", "-E", expression],
        cwd=ROOT,
        check=False,
        capture_output=True,
        env=NO_STORE,
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def need_inputs() -> str:
    """The folder with the inputs' source trees; skips where nobody named one."""
    need_nix()
    inputs = os.environ.get("ORBIT_NIX_INPUTS")
    if not inputs:
        pytest.skip("ORBIT_NIX_INPUTS is not set (a folder with the source trees of flake.lock's inputs; docs/nix.md)")
    return inputs


def need_wheels() -> str:
    """The inputs, where the files to build from are there as well."""
    inputs = need_inputs()
    if "ORBIT_NIX_WHEELS" not in os.environ:
        pytest.skip("ORBIT_NIX_WHEELS is not set (a folder with the files to build from; docs/nix.md)")
    return inputs


def harness(*words: str | Path, timeout: int = 1800) -> subprocess.CompletedProcess[str]:
    """Run nix/tests/harness.sh."""
    return subprocess.run([HARNESS, *words], capture_output=True, text=True, check=False, timeout=timeout)
