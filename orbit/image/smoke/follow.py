"""Reading the results of a running smoke as they appear, so that minutes of checks are not minutes of silence."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import msgspec

from orbit.core.beside import Beside
from orbit.core.console import Progress
from orbit.smoke.model import RESULTS, CheckResult, SmokeList

NOISE_LINES = 25


class Follower(Beside):
    """Reads a growing log: JSON lines of results are kept, other lines are noise that explains an early end."""

    def __init__(self, log: Path, plan: SmokeList, progress: Progress, every_s: float = 0.5) -> None:
        super().__init__("smoke-follower")
        self._log = log
        self._names = {check.name for check in plan.checks}
        self._total = len(plan.checks)
        self._progress = progress
        self._every_s = every_s
        self._noise: list[str] = []
        self.results: list[CheckResult] = []

    def noise(self) -> str:
        """The last lines that were no results."""
        return "\n".join(self._noise[-NOISE_LINES:])

    def take(self, line: str) -> None:
        """Take one whole line of the log."""
        result = read_result(line)
        if result is None or result.check not in self._names:
            if line.strip():
                self._noise.append(line)
            return
        self.results.append(result)
        detail = f": {result.detail}" if result.detail else ""
        self._progress.step(f"smoke: {result.result} {result.check} ({result.seconds:.1f} s){detail}"[:300])
        self._progress.advance("smoke checks", len(self.results), self._total)

    def work(self, ended: threading.Event) -> None:
        """Read until the run is over, and then the rest."""
        with open(self._log, encoding="utf-8", errors="replace") as file:
            rest = ""
            while True:
                last = ended.is_set()
                *lines, rest = (rest + file.read()).split("\n")
                for line in lines:
                    self.take(line)
                if last:
                    if rest:
                        self.take(rest)
                    return
                ended.wait(self._every_s)


def read_result(line: str) -> CheckResult | None:
    """A result if ``line`` is one in JSON, else None."""
    if not line.startswith('{"check"'):
        return None
    try:
        result = msgspec.convert(json.loads(line), CheckResult)
    except (json.JSONDecodeError, msgspec.ValidationError):
        return None
    return result if result.result in RESULTS else None
