"""One step of a unit: taken from the cache, or admitted, run, measured and kept; either way one line in the log."""

from __future__ import annotations

import os
import sys

from .admission import Admission, NotAdmitted
from .cache import UnitCache
from .log import append
from .measure import NOTHING, Result, execute, replay
from .places import PROBE, clean_file, write_beside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .config import Config

UNIT = "ORBIT_UNIT"
"""Variable by which the front of nvcc tells the fronts behind it what is compiled."""
STATE = "ORBIT_UNIT_STATE"
"""Variable with the file in which they tell what became of their steps, one word a line."""
NOT_ADMITTED = 75
"""Exit status (EX_TEMPFAIL of sysexits.h)."""


class Step:
    """A program to run, and all that decides about its result."""

    __slots__ = ("arch", "argv", "key", "name", "outputs", "source", "texts")

    def __init__(
        self,
        name: str,
        source: str,
        arch: str,
        argv: Sequence[str],
        *,
        key: str = "",
        outputs: Mapping[str, str] | None = None,
        texts: bool = False,
    ) -> None:
        self.name = name
        """``cicc``, ``ptxas``, ``cudafe``, ``host`` or ``link``."""
        self.source = source
        self.arch = arch
        self.argv = argv
        """The real program and its arguments."""
        self.key = key
        """Hash of everything the result depends on; empty when it cannot be cached."""
        self.outputs = outputs or {}
        """Role -> file it writes."""
        self.texts = texts
        """Whether the outputs are texts that may hold paths of this machine."""


class Outcome:
    """What became of a step."""

    __slots__ = ("became", "result")

    def __init__(self, became: str, result: Result) -> None:
        self.became = became
        """``step``, ``miss``, ``off`` or ``placeholder``, see :mod:`.log`."""
        self.result = result

    @property
    def status(self) -> int:
        """The program's status."""
        return self.result.status


def run_step(step: Step, config: Config) -> Outcome:
    """Do one step. What the program said is said again when its result comes from the cache."""
    cache = UnitCache(config)
    key = step.key if cache and step.source != PROBE else ""
    try:
        if key and (entry := cache.get("step", key)):
            Admission(config, step.name, step.source, step.arch).count_cached()
            for role, path in step.outputs.items():
                if role in entry.files:
                    write_beside(path, entry.files[role])
            replay(entry.files["stdout"], entry.files["stderr"])
            return _note(step, config, NOTHING, "step", entry.size)
        with Admission(config, step.name, step.source, step.arch) as admission:
            result = execute(step.argv, capture=bool(key))
            admission.report(result)
    except NotAdmitted as error:
        sys.stderr.write(f"orbit shim: {error}\n")
        append(config, {"error": str(error), "status": NOT_ADMITTED})
        return Outcome("off", Result(NOT_ADMITTED, out=b"", err=b""))
    replay(result.out, result.err)
    size = _keep(step, config, cache, key, result) if result.status == 0 else 0
    return _note(step, config, result, "miss" if key else "off", size)


def run_placeholder(step: Step, config: Config) -> Outcome:
    """Run what makes an empty result for a step of another machine; nothing is asked for and nothing is kept."""
    result = execute(step.argv, capture=True)
    if result.status:
        replay(result.out, result.err)
    return _note(step, config, result, "placeholder", 0)


def tell(word: str) -> None:
    """Tell the front of nvcc, if one is above us, what became of a step."""
    path = os.environ.get(STATE)
    if path:
        with open(path, "ab", buffering=0) as file:
            file.write(f"{word}\n".encode())


def _keep(step: Step, config: Config, cache: UnitCache, key: str, result: Result) -> int:
    files = {"stdout": result.out, "stderr": result.err}
    for role, path in step.outputs.items():
        if not os.path.isfile(path):
            continue
        if step.texts:
            clean_file(path, config)
        if key:
            with open(path, "rb") as file:
                files[role] = file.read()
    return cache.put("step", key, files, result.numbers()) if key else 0


def _note(step: Step, config: Config, result: Result, became: str, size: int) -> Outcome:
    tell(became)
    line = {"kind": "step", "step": step.name, "source": step.source, "arch": step.arch, "cache": became, "bytes": size}
    append(config, {**line, **result.numbers()})
    return Outcome(became, result)
