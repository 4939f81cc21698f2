"""The order of causes, and the reason that is given for it."""

from __future__ import annotations

import itertools

import msgspec

from orbit.doctor.catalog import Certainty, Symptom
from orbit.doctor.diagnosis import MOST_EVIDENCE, Sighting, rank
from orbit.doctor.scan import Hit

BASE = Symptom(id="x-x", title="t", where=("node",), sees="s", cause="c", fix=("general",), untold="u", unseen="v")


def made(*names: str, **changes: object) -> dict[str, Symptom]:
    return {name: msgspec.structs.replace(BASE, id=name, **changes) for name in names}


def hit(name: str, line: int, weight: int = 10) -> Hit:
    return Hit(symptom=name, line=line, text=f"text of {name}", weight=weight)


def order(catalog: dict[str, Symptom], *hits: Hit, sightings: tuple[Sighting, ...] = ()) -> list[str]:
    return [cause.symptom for cause in rank(catalog, hits=hits, sightings=sightings)]


def test_certain_before_likely_before_possible() -> None:
    catalog = made("a-a", certainty=Certainty.POSSIBLE) | made("b-b") | made("c-c", certainty=Certainty.LIKELY)
    assert order(catalog, hit("a-a", 1), hit("b-b", 3), hit("c-c", 2)) == ["b-b", "c-c", "a-a"]


def test_of_equals_the_earlier_line_then_the_longer_pattern_then_the_name() -> None:
    catalog = made("a-a", "b-b", "c-c", "d-d")
    found = order(catalog, hit("d-d", 1), hit("c-c", 9, 30), hit("b-b", 9, 5), hit("a-a", 9, 5))
    assert found == ["d-d", "c-c", "a-a", "b-b"]


def test_what_follows_stands_behind_its_cause_however_sure_it_is() -> None:
    catalog = made("root-cause", certainty=Certainty.POSSIBLE) | made("mid-dle", after=("root-cause",))
    catalog |= made("last-one", after=("mid-dle",)) | made("other-one")
    found = rank(catalog, hits=[hit(name, line) for line, name in enumerate(catalog, 1)])
    assert [cause.symptom for cause in found] == ["other-one", "root-cause", "mid-dle", "last-one"]
    assert [cause.follows_from for cause in found] == ["", "", "root-cause", "mid-dle"]
    assert "mend that first" in found[2].why_here


def test_the_line_of_a_cause_is_no_consequence_of_it() -> None:
    catalog = made("root-cause") | made("mid-dle", after=("root-cause",))
    assert order(catalog, hit("mid-dle", 4), hit("root-cause", 4)) == ["root-cause"]
    assert order(catalog, hit("mid-dle", 5), hit("root-cause", 4)) == ["root-cause", "mid-dle"]


def test_a_consequence_alone_is_a_cause() -> None:
    catalog = made("root-cause") | made("mid-dle", after=("root-cause",))
    (cause,) = rank(catalog, hits=[hit("mid-dle", 4)])
    assert (cause.follows_from, cause.why_here) == ("", "nothing else was found")


def test_what_is_seen_here_comes_before_what_a_text_says() -> None:
    catalog = made("a-a", "b-b")
    assert order(catalog, hit("a-a", 1), sightings=(Sighting(symptom="b-b", message="m"),)) == ["b-b", "a-a"]


def test_what_runs_here_comes_before_what_lies_in_files() -> None:
    seen = (Sighting(symptom="a-a", message="m", source="audit: run-path"), Sighting(symptom="b-b", message="m"))
    assert order(made("a-a", "b-b", "c-c"), hit("c-c", 1), sightings=seen) == ["b-b", "a-a", "c-c"]


def test_the_order_does_not_depend_on_how_things_came() -> None:
    catalog = made("a-a", "b-b", certainty=Certainty.LIKELY) | made("c-c", after=("a-a",)) | made("d-d")
    hits = [hit("a-a", 5), hit("b-b", 5), hit("c-c", 2), hit("d-d", 7)]
    assert {tuple(order(catalog, *some)) for some in itertools.permutations(hits)} == {("d-d", "a-a", "c-c", "b-b")}


def test_evidence_is_limited_and_the_particular_fix_comes_first() -> None:
    seen = tuple(Sighting(symptom="a-a", message=f"m{n}", fix="particular") for n in range(MOST_EVIDENCE + 3))
    (cause,) = rank(made("a-a"), sightings=seen, hits=[hit("a-a", 3)])
    assert cause.evidence == (*(f"m{n}" for n in range(MOST_EVIDENCE)), "and 3 more", "line 3: text of a-a")
    assert cause.fix == ("particular", "general")


def test_the_surest_sighting_counts() -> None:
    seen = [Sighting(symptom="a-a", message="m", certainty=sure) for sure in (Certainty.POSSIBLE, Certainty.LIKELY)]
    (cause,) = rank(made("a-a"), sightings=seen)
    assert cause.certainty is Certainty.LIKELY


def test_nothing_found_is_nothing() -> None:
    assert rank(made("a-a")) == ()
