"""Every symptom is decided: a rule that a test shows, or why nothing of it is in a file."""

from __future__ import annotations

import pytest

from orbit.audit.rules import RULE_IDS
from tests.audit.field import test_symptoms_images, test_symptoms_packages
from tests.audit.field.symptoms import Symptom, load_table

TABLE = load_table()
CASES = [*test_symptoms_packages.CASES, *test_symptoms_images.CASES]
SHOWN = {(number, case.rule) for case in CASES for number in case.numbers.split()}
ROWS = [(str(row.number), row) for row in TABLE.symptoms] + [(f"c{row.number}", row) for row in TABLE.cluster]


def test_every_symptom_is_in_the_table_once() -> None:
    assert [row.number for row in TABLE.symptoms] == list(range(1, 79))
    assert len({row.number for row in TABLE.cluster}) == len(TABLE.cluster)


@pytest.mark.parametrize(("name", "row"), ROWS, ids=[name for name, _row in ROWS])
def test_a_symptom_is_shown_or_explained(name: str, row: Symptom) -> None:
    assert bool(row.rules) != bool(row.run_time)
    assert bool(row.rules) == bool(row.what)
    assert set(row.rules) <= RULE_IDS
    assert {rule for number, rule in SHOWN if number == name} == set(row.rules)


def test_no_test_shows_what_the_table_does_not_have() -> None:
    assert {number for number, _rule in SHOWN} <= {name for name, row in ROWS if row.rules}
