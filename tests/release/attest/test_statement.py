"""in-toto statements: written in one way, read closed, and understood by another library."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.errors import InputError
from orbit.release.attest.statement import (
    PREDICATES,
    PROVENANCE,
    SMOKE,
    STATEMENT_TYPE,
    Resource,
    image_subject,
    make_statement,
    parse_statement,
    parse_time,
    statement_bytes,
    times_of,
)
from tests.release.attest.test_strict import JSON
from tests.release.attest.world import IMAGE, MADE, attempt, statement


def document(**changes: Any) -> bytes:
    fields = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": "orbit/probe", "digest": {"sha256": "9f" * 32}}],
        "predicateType": SMOKE,
        "predicate": {"a": 1},
    }
    return json.dumps({key: value for key, value in (fields | changes).items() if value is not ...}).encode()


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), JSON, max_size=5))
def test_written_and_read_it_is_the_same_and_has_one_spelling(predicate: dict[str, Any]) -> None:
    made = make_statement("orbit/probe", IMAGE, SMOKE, predicate)
    data = statement_bytes(made)
    read = parse_statement(data, "x")
    assert read == made
    assert statement_bytes(read) == data
    assert list(json.loads(data)) == sorted(json.loads(data))


@given(st.binary(max_size=300))
def test_any_bytes_are_a_statement_or_a_sentence(data: bytes) -> None:
    with pytest.raises(InputError, match=r"^here: "):
        parse_statement(data, "here")


@given(st.data())
def test_a_statement_with_one_byte_changed_is_another_one_or_a_sentence(data: st.DataObject) -> None:
    # without blanks: one between two tokens may as well be a tab
    whole = bytearray(json.dumps(json.loads(document()), separators=(",", ":")).encode())
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[place]))
    found = attempt(lambda: parse_statement(bytes(whole), "here"))
    if isinstance(found, InputError):
        assert found.what.startswith("here: ")
    else:
        assert found != parse_statement(document(), "here")


def test_the_subject_is_the_image() -> None:
    made = statement()
    assert made.image_digest == IMAGE
    assert image_subject("orbit/probe", IMAGE) == Resource(name="orbit/probe", digest={"sha256": IMAGE[7:]})
    for wrong in ("", IMAGE[7:], "sha256:" + "9F" * 32, "sha512:" + "9f" * 64, IMAGE + "0", "latest"):
        with pytest.raises(InputError, match="no image digest"):
            image_subject("orbit/probe", wrong)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"_type": "https://in-toto.io/Statement/v0.1"}, "_type is 'https://in-toto.io/Statement/v0.1'"),
        ({"_type": ...}, "_type is None"),
        ({"subject": []}, "0 subjects"),
        ({"subject": [{"digest": {"sha256": "9f" * 32}}] * 2}, "2 subjects"),
        ({"subject": [{"name": "x"}]}, "no sha256"),
        ({"subject": [{"digest": {"sha1": "9f" * 20}}]}, "no sha256"),
        ({"subject": [{"digest": {"sha256": "9f"}}]}, "'9f' is no sha256"),
        ({"subject": [{"digest": {"sha256": "9F" * 32}}]}, "is no sha256"),
        ({"subject": "image"}, "subject"),
        ({"predicateType": ""}, "predicateType is empty"),
        ({"predicate": [1]}, "predicate"),
        ({"predicate": ...}, "predicate"),
        ({"more": 1}, "more"),
    ],
)
def test_what_is_no_statement_of_ours_is_refused(change: dict[str, Any], says: str) -> None:
    assert parse_statement(document(), "f")
    with pytest.raises(InputError) as refused:
        parse_statement(document(**change), "f")
    assert says in refused.value.what


def test_all_that_the_standard_has_for_a_subject_is_read() -> None:
    subject = {
        "name": "n", "uri": "u", "digest": {"sha256": "9f" * 32, "gitCommit": "ab"}, "content": "YQ==",
        "downloadLocation": "d", "mediaType": "m", "annotations": {"k": 1},
    }  # fmt: skip
    read = parse_statement(document(subject=[subject]), "f")
    assert json.loads(statement_bytes(read))["subject"] == [subject]


def test_values_that_json_has_no_place_for_cannot_be_signed() -> None:
    for value in (float("nan"), float("inf"), "\ud800", {1, 2}.__iter__()):
        with pytest.raises(InputError, match="this predicate"):
            statement(value=value)


def test_tuples_and_large_numbers_are_what_a_reader_makes_of_them() -> None:
    made = statement(value=(1, 2**70))
    assert made.predicate["value"] == [1, 2**70]
    assert parse_statement(statement_bytes(made), "x") == made


def test_times_are_those_the_predicate_names() -> None:
    assert times_of(statement(finished="2026-11-30T22:30:00+02:00"), "x") == (
        dt.datetime(2026, 11, 30, 20, 0, tzinfo=dt.UTC),
        dt.datetime(2026, 11, 30, 20, 30, tzinfo=dt.UTC),
    )
    assert times_of(make_statement("n", IMAGE, SMOKE, {"a": MADE}), "x") == ()
    slsa = {"runDetails": {"metadata": {"startedOn": "2026-11-30T20:00:00Z", "finishedOn": "2026-11-30T21:00:00Z"}}}
    assert len(times_of(make_statement("n", IMAGE, PROVENANCE, slsa), "x")) == 2
    assert times_of(make_statement("n", IMAGE, PROVENANCE, {"runDetails": 3}), "x") == ()


@pytest.mark.parametrize("value", ["yesterday", "2026-11-30T20:00:00", 5, [MADE]])
def test_a_time_that_is_none_is_a_sentence(value: object) -> None:
    with pytest.raises(InputError, match="started"):
        times_of(statement(started=value), "x")


def test_a_time_without_zone_is_none() -> None:
    assert parse_time("2026-11-30T20:00:00Z", "x") == dt.datetime(2026, 11, 30, 20, tzinfo=dt.UTC)
    with pytest.raises(InputError, match="no time zone"):
        parse_time("2026-11-30T20:00:00", "x")


def test_names_are_unique() -> None:
    assert len(set(PREDICATES.values())) == len(PREDICATES)
    assert all(uri == PROVENANCE or uri == f"urn:orbit:predicate:{name}:1" for name, uri in PREDICATES.items())


def test_another_library_reads_it() -> None:
    dsse = pytest.importorskip("sigstore.dsse", reason="the extra sigstore is not installed")
    data = statement_bytes(statement())
    assert dsse.Statement(data)._contents == data
    built = dsse.StatementBuilder(
        subjects=[dsse.Subject(name="orbit/probe", digest={"sha256": IMAGE[7:]})],
        predicate_type=SMOKE,
        predicate={"started": MADE, "passed": True},
    ).build()
    assert parse_statement(built._contents, "theirs") == statement()
