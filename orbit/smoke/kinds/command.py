"""Whether a program of the image answers."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Any

from orbit.core.proc import run
from orbit.smoke.model import CheckError, Context


def check_command(parameters: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """Run ``argv`` (found on PATH; ``{prefix}`` and ``{python}`` are replaced); status must be ``status`` (default 0)
    and stdout + stderr must match the regular expression ``output``."""
    places = {"prefix": context.prefix or sys.prefix, "python": sys.executable}
    argv = [str(word).format(**places) for word in parameters["argv"]]
    done = run(argv, doing=f"asking {argv[0]}", env=dict(os.environ), check=False)
    text = (done.stdout + done.stderr).decode(errors="replace").strip()
    print(text)
    wanted = int(parameters.get("status", 0))
    if done.returncode != wanted:
        raise CheckError(f"{' '.join(argv)}: status {done.returncode} instead of {wanted}: {_last_line(text)}")
    pattern = str(parameters["output"])
    found = re.search(pattern, text)
    if found is None:
        raise CheckError(f"{' '.join(argv)}: the output does not match {pattern!r}: {_last_line(text)}")
    return {"summary": found.group(0)}


def _last_line(text: str) -> str:
    return text.splitlines()[-1] if text else "no output"
