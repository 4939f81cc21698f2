"""Load the stack, then tell what is mapped into this process and which versions the libraries themselves name.

A program of its own, started with the environment's Python; the standard library is all it needs beside the stack. The
result is one JSON object on stdout; whatever the stack prints goes to stderr.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys

from orbit.launch.fingerprint.spoken import read_maps, versions

STACK = ("torch", "ray")


def load(names: tuple[str, ...] = STACK) -> dict[str, str]:
    """Import each module that is installed; the error of each that cannot be imported, by name."""
    errors: dict[str, str] = {}
    for name in names:
        if importlib.util.find_spec(name) is None:
            continue
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - any reason is told to who asked
            errors[name] = f"{type(error).__name__}: {error}"
    return errors


def main() -> None:
    """Print ``{"maps": ..., "versions": ..., "errors": ..., "program": ...}``."""
    out = os.dup(1)
    os.dup2(2, 1)
    errors = load()
    maps = read_maps()
    said = {
        "maps": maps,
        "versions": versions(maps),
        "errors": errors,
        "program": os.path.realpath(sys.executable),
    }
    with os.fdopen(out, "w") as file:
        json.dump(said, file)
