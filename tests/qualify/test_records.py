"""Records as files: closed, consistent, and with the schema that is published."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest

from orbit.audit.reports.report import json_schema
from orbit.core.paths import data_root
from orbit.errors import InputError
from orbit.qualify.compare import Comparison
from orbit.qualify.records import Qualification, load_record
from tests.qualify.made import compared, record
from tests.qualify.toy import Toy, nudge, push

PUBLISHED = {"qualification.json": Qualification, "qualification-comparison.json": Comparison}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_schema_is_that_of_the_record(name: str) -> None:
    action = "record" if name == "qualification.json" else "compare"
    published = (data_root() / "docs" / "schemas" / name).read_bytes()
    assert published == json_schema(PUBLISHED[name]), f"orbit qualify {action} --schema > docs/schemas/{name}"


def test_what_is_written_fits_the_published_schema(tmp_path: Path) -> None:
    schemas = data_root() / "docs" / "schemas"
    noisy = Toy(noise={("forward", "scaled"): nudge}, skipped={"sdpa": "none here"})
    record(tmp_path / "r.json", noisy)
    check_against(schemas / "qualification.json", (tmp_path / "r.json").read_bytes())
    found = compared(tmp_path, right=Toy(twist={("decode", "scaled"): push}))
    check_against(schemas / "qualification-comparison.json", msgspec.json.encode(found))


def check_against(schema: Path, document: bytes) -> None:
    jsonschema.validate(json.loads(document), json.loads(schema.read_bytes()))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(document) | {"unknown": 1}, json.loads(schema.read_bytes()))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data.update(schema="orbit.qualification/2"), "schema"),
        (lambda data: data.update(extra=1), "extra"),
        (lambda data: data.update(verdict="fine"), "verdict"),
        (lambda data: data["cases"].append(data["cases"][0]), "stands twice"),
        (lambda data: data["cases"][0]["entries"][1].update(inputs=[5]), "something later"),
        (lambda data: data["tensors"].update(index={}), "in no file"),
        (lambda data: data["cases"][0].update(entries=[], repeats=[]), "nothing was computed"),
        (lambda data: data["cases"][0]["repeats"][0].update(changed={"forward nothing": "x"}), "not there"),
    ],
)
def test_an_edited_record_is_refused(tmp_path: Path, change: object, said: str) -> None:
    path = tmp_path / "r.json"
    record(path)
    data = json.loads(path.read_text())
    change(data)  # type: ignore[operator]
    path.write_text(json.dumps(data))
    with pytest.raises(InputError, match=said):
        load_record(path)


def test_a_file_that_is_cut_or_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    record(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError, match="cut short"):
        load_record(path)
    with pytest.raises(InputError, match="no such file"):
        load_record(tmp_path / "none.json")
