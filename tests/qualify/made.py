"""Records made by the toy, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from orbit.core.console import Silent
from orbit.qualify.compare import Comparison, compare, load_side
from orbit.qualify.model import Definition
from orbit.qualify.records import Qualification, Settings, save_record
from orbit.qualify.trials import CaseKey, make_record
from tests.qualify.toy import CASES, Toy, tiny


def record(
    path: Path,
    toy: Toy | None = None,
    *,
    definition: Definition | None = None,
    repeats: int = 2,
    settings: Settings | None = None,
    cases: Sequence[CaseKey] = CASES,
    image: str = "",
) -> Qualification:
    """Make a record at ``path``, written and returned."""
    made = make_record(
        definition or tiny(),
        path,
        start=toy or Toy(),
        cases=cases,
        kind="cpu",
        settings=settings or Settings(),
        repeats=repeats,
        image=image,
        progress=Silent(),
    )
    save_record(path, made)
    return made


def compared(tmp_path: Path, left: Toy | None = None, right: Toy | None = None) -> Comparison:
    """Two records compared."""
    record(tmp_path / "a.json", left)
    record(tmp_path / "b.json", right)
    return compare(load_side(tmp_path / "a.json"), load_side(tmp_path / "b.json"), tiny())
