"""Each pattern matches what is really printed, and no near miss of its symptom; each sample has its cause first."""

from __future__ import annotations

import pytest

from orbit.doctor.catalog import load_catalog, patterns_of
from orbit.doctor.run import explain
from tests.doctor.examples import Sample, samples

CATALOG = load_catalog()
REAL = [sample for sample in samples() if not sample.near]
NEAR = [sample for sample in samples() if sample.near]


def test_every_symptom_with_patterns_has_samples_of_both_kinds() -> None:
    with_patterns = {name for name, symptom in CATALOG.items() if symptom.patterns}
    assert {sample.symptom for sample in REAL} == with_patterns
    assert {sample.symptom for sample in NEAR} == with_patterns


@pytest.mark.parametrize("name", sorted(name for name, symptom in CATALOG.items() if symptom.patterns))
def test_every_pattern_matches_a_sample(name: str) -> None:
    texts = [sample.text.encode() for sample in REAL if sample.symptom == name]
    unseen = [p.text for p in patterns_of(name) if not any(p.search.search(text) for text in texts)]
    assert unseen == []


@pytest.mark.parametrize("sample", REAL, ids=lambda sample: sample.symptom)
def test_a_sample_has_its_symptom_first(sample: Sample) -> None:
    causes = explain(sample.text).causes
    assert [cause.symptom for cause in causes][:1] == [sample.symptom], [cause.symptom for cause in causes]


@pytest.mark.parametrize("sample", NEAR, ids=lambda sample: sample.symptom)
def test_a_near_miss_is_no_hit(sample: Sample) -> None:
    assert sample.symptom not in [cause.symptom for cause in explain(sample.text).causes]
