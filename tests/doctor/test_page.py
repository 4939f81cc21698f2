"""docs/symptoms.md is what the catalogue says, and numbers of coverage are counted."""

from __future__ import annotations

import msgspec
import pytest

from orbit.core.paths import checkout_root
from orbit.doctor.catalog import LISTS, load_catalog
from orbit.doctor.page import KINDS, count, coverage, coverage_rows, render_page


def test_the_page_is_the_catalogues() -> None:
    page = checkout_root() / "docs" / "symptoms.md"
    assert page.read_text(encoding="utf-8") == render_page(), "orbit doctor --page > docs/symptoms.md"


def test_the_table_of_the_doctors_page_is_the_same() -> None:
    page = (checkout_root() / "docs" / "doctor.md").read_text(encoding="utf-8")
    assert [row for row in coverage_rows(load_catalog()) if row not in page] == []


def test_every_entry_is_on_the_page() -> None:
    page = render_page()
    assert {symptom.file for symptom in load_catalog().values()} == set(KINDS)
    assert [name for name in load_catalog() if f"`{name}`" not in page] == []


@pytest.mark.parametrize("name", sorted(LISTS))
def test_every_failure_is_counted_once(name: str) -> None:
    found = coverage(load_catalog(), name)
    assert found.total == LISTS[name]
    assert found.neither < found.total / 5


def test_the_best_way_of_several_symptoms_counts() -> None:
    base = load_catalog()["shared-memory-too-small"]
    bare = msgspec.structs.replace(base, id="a-a", patterns=(), checks=(), lists=("cluster:1",))
    both = {"a-a": bare, "b-b": msgspec.structs.replace(base, lists=("cluster:1",))}
    assert (coverage(both, "cluster").both, coverage(both, "cluster").neither) == (1, 25)
    assert coverage({"a-a": bare}, "cluster").neither == 26
    assert (count(both, "all"), count(both, "both"), count(both, "total")) == (2, 1, 129)
