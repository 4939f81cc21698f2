"""The fronts of ninja and make: as many open compile calls as orbit says.

Build scripts compute ``-j`` from cores or memory, each in its own way and none knowing the others. How many steps
really run is the job server's business; the number here only keeps enough of them waiting.
"""

from __future__ import annotations

import os
import re

from .measure import become
from .places import real_tool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .config import Config

QUERIES = frozenset(("--version", "--help", "-h", "-t"))
"""With one of these ninja and make build nothing."""
JOBS = re.compile(r"^(-j|--jobs=?)(\d*)$")


def run_build_tool(tool: str, arguments: Sequence[str], config: Config) -> int:
    """Become the real tool with our ``-j``; does not return."""
    real = real_tool(tool, config, os.getcwd())
    nested = "MAKELEVEL" in os.environ and "jobserver" in os.environ.get("MAKEFLAGS", "")
    if config["inflight"] and not QUERIES & set(arguments):
        arguments = without_jobs(arguments)
        if tool == "ninja" or not nested:
            arguments = [f"-j{config['inflight']}", *arguments]
        if not nested and "MAKEFLAGS" in os.environ:
            os.environ["MAKEFLAGS"] = " ".join(without_jobs(os.environ["MAKEFLAGS"].split()))
    become([real, *arguments])


def without_jobs(arguments: Sequence[str]) -> list[str]:
    """Arguments without ``-j N``, ``-jN``, ``--jobs N`` and ``--jobs=N``."""
    kept = []
    queue = list(arguments)
    while queue:
        argument = queue.pop(0)
        match = JOBS.match(argument)
        if match is None:
            kept.append(argument)
        elif not match[2] and queue and queue[0].isdigit():
            queue.pop(0)
    return kept
