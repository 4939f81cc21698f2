"""Runs a program of Ray's without what only costs time: ``python lean.py SCRIPT ARGUMENT...``, as a file.

jsonschema compiles a grammar for IRIs when the package for it happens to be installed: 2 s of processor time in every
process that imports Ray, and nothing there checks an IRI. The package is not in an image; it comes with some tools.
"""

from __future__ import annotations

import os
import runpy
import sys
from typing import Any

UNWANTED = "rfc3987_syntax"


def skip_unwanted() -> None:
    """Have an import of it fail, which jsonschema takes for its absence."""
    modules: dict[str, Any] = sys.modules  # None is what makes an import fail
    modules.setdefault(UNWANTED, None)


if __name__ == "__main__":
    skip_unwanted()
    sys.argv.pop(0)
    sys.path[0] = os.path.dirname(sys.argv[0])
    runpy.run_path(sys.argv[0], run_name="__main__")
