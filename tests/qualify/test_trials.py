"""Making a record: runs in processes of their own, crashes, and environments that change meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.errors import InputError, MissingError, RefusedError
from orbit.qualify.records import Settings, load_record
from orbit.qualify.sidefile import open_tensors
from orbit.qualify.trials import Blobs, Order, make_record
from tests.qualify.made import record
from tests.qualify.toy import CASES, Toy, tiny


def test_a_record_is_written_with_its_tensors_and_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "out" / "r.json"
    toy = Toy()
    made = record(path, toy, image="sha256:" + "0" * 64)
    assert toy.runs == 2
    assert load_record(path) == made
    tensors = open_tensors(path, made)
    for case in made.cases:
        for entry in case.entries:
            assert len(tensors.get(entry.sha256)) > 0
    assert sorted(item.name for item in path.parent.iterdir()) == ["r.json", "r.tensors"]
    assert made.definition.identity == tiny().identity
    assert made.image.startswith("sha256:")


def test_a_case_that_kills_its_process_has_failed_and_the_rest_is_run(tmp_path: Path) -> None:
    made = record(tmp_path / "r.json", Toy(dies_at=("torch", "bfloat16")))
    assert [case.result for case in made.cases] == ["proven", "failed", "proven", "proven"]
    assert made.cases[1].reason == "its process ended: signal 11"
    assert made.verdict == "failed"


def test_a_process_that_says_nothing_is_no_record(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="nothing could be run: status 1: no torch") as caught:
        record(tmp_path / "r.json", start_nothing)  # type: ignore[arg-type]
    assert "--prefix" in caught.value.fix
    assert list(tmp_path.iterdir()) == []


def start_nothing(order: Order) -> str:
    assert Path(order.folder).is_dir()
    return "status 1: no torch"


def test_an_environment_that_changes_between_two_runs_is_refused(tmp_path: Path) -> None:
    toy = Toy()

    def start(order: Order) -> str:
        toy.versions = {"torch": str(toy.runs)}
        return toy(order)

    with pytest.raises(RefusedError, match="two environments"):
        record(tmp_path / "r.json", start)  # type: ignore[arg-type]


@pytest.mark.parametrize("repeats", [0, -1, 100])
def test_a_number_of_repeats_that_cannot_be(tmp_path: Path, repeats: int) -> None:
    with pytest.raises(InputError, match="--repeats"):
        make_record(
            tiny(),
            tmp_path / "r.json",
            start=Toy(),
            cases=CASES,
            kind="cpu",
            settings=Settings(),
            repeats=repeats,
            progress=Silent(),
        )


def test_bytes_are_left_once(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    blobs("a", b"1")
    blobs("a", b"2")
    assert [path.read_bytes() for path in (tmp_path / "blobs").iterdir()] == [b"1"]
