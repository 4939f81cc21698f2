"""python-floor: bounds that exclude the interpreter, and those that only look so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit.support import judge
from tests.writers.environment import write_sound_environment


@pytest.mark.parametrize("bound", ["<3.12", ">=3.13", "==3.11.*", ">=3.8,<3.10"])
def test_excluded(tmp_path: Path, bound: str) -> None:
    env = write_sound_environment(tmp_path / "e")
    env.add("a", {}, headers=[f"Requires-Python: {bound}"])
    env.add("b", {}, headers=[f"Requires-Python: {bound}"])
    (finding,) = judge(env.prefix, "python-floor")
    assert (finding.subject, finding.fatal) == ("a 1.0, b 1.0", True)


@pytest.mark.parametrize("bound", [">=3.12", ">=3.12.4", "!=3.12.3", "<4", "<=3.12", ">=3.9,<3.13", "nonsense", ""])
def test_allowed(tmp_path: Path, bound: str) -> None:
    env = write_sound_environment(tmp_path / "e")
    env.add("a", {}, headers=[f"Requires-Python: {bound}"])
    assert judge(env.prefix, "python-floor") == []
