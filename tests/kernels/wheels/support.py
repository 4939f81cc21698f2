"""Unpacked wheels and real shared objects for the tests of orbit.kernels.wheels."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

INFO = "thing-1.2.dist-info"
WHEEL = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: cp312-cp312-linux_x86_64\n"
METADATA = b"Metadata-Version: 2.1\nName: thing\nVersion: 1.2\n\nText\n"
FILES = {
    "thing/__init__.py": b"x = 1\n",
    "thing/tool": b"#!/bin/sh\n",
    f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n",
    f"{INFO}/METADATA": METADATA,
}


def lay_out(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write ``files`` below ``folder`` and return it."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def compiled(folder: Path, text: str, *flags: str, name: str = "a.so") -> Path:
    """A shared object that gcc makes of C source ``text``; the test is skipped where there is no gcc."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc on this machine")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a.c").write_text(text)
    subprocess.run([compiler, "-shared", "-fPIC", "a.c", "-o", name, *flags], cwd=folder, check=True)
    return folder / name
