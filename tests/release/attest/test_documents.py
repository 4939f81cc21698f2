"""What is signed is whole and names its image; what it says is taken as it is."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbit.errors import InputError
from orbit.image.smoke.report import SmokeReport, SmokeRun
from orbit.qualify.records import DefinitionId, Device, Identity, Qualification, Settings, TensorFileId
from orbit.release.attest.documents import read_document
from orbit.release.attest.statement import QUALIFICATION, SMOKE, times_of
from orbit.smoke.machine import Gpu, MachineFacts
from tests.image.tiny import result
from tests.release.attest.world import IMAGE, MADE, attempt

MACHINE = MachineFacts(
    system="Linux 6.1 x86_64",
    cpu="a processor",
    cores=2,
    memory_bytes=8 << 30,
    driver="580.65.06",
    driver_cuda="13.0",
    gpus=(Gpu(name="NVIDIA H200", capability="9.0", memory_bytes=150_000_000_000),),
)


def smoke_report(**changes: Any) -> SmokeReport:
    """A report that can be signed, changed."""
    values: dict[str, Any] = {
        "profile": "probe", "image": IMAGE, "engine": "docker", "engine_version": "27", "real_ids": True,
        "runs": (SmokeRun(list="probe-gpu", uid=65534, seconds=2.0, results=(result("a"), result("b"))),),
        "started": MADE, "machine": MACHINE, "environment": "e" * 64,
    }  # fmt: skip
    return SmokeReport(**(values | changes))


def qualification(**changes: Any) -> Qualification:
    """A record that can be signed, changed."""
    values: dict[str, Any] = {
        "verdict": "passed", "recorded": MADE, "profile": "cu130", "image": IMAGE, "repeats": 3, "counts": {},
        "definition": DefinitionId(name="tiny", identity="a" * 64, batch="b" * 64, weights="c" * 64), "cases": (),
        "identity": Identity(device=Device(kind="cuda", name="NVIDIA H200", architecture="sm_90"), versions={}),
        "settings": Settings(), "tensors": TensorFileId(file="t", bytes=0, sha256="d" * 64, index={}),
    }  # fmt: skip
    return Qualification(**(values | changes))


def put(path: Path, value: object) -> Path:
    path.write_bytes(msgspec.json.encode(value))
    return path


def test_a_smoke_report(tmp_path: Path) -> None:
    path = put(tmp_path / "smoke.json", smoke_report())
    read = read_document(path)
    assert read.statement.predicate_type == SMOKE
    assert read.statement.image_digest == IMAGE
    assert read.statement.subject[0].name == "orbit/probe"
    assert read.statement.predicate == json.loads(path.read_bytes())
    assert read.summary == "smoke, 2 passed, NVIDIA H200, driver 580.65.06"


def test_a_failed_one_can_be_signed_and_says_so(tmp_path: Path) -> None:
    run = SmokeRun(list="l", uid=0, seconds=1.0, results=(result("a"), result("b", "failed", "broken")))
    bare = msgspec.structs.replace(smoke_report(), runs=(run,), machine=MachineFacts(
        system="s", cpu="", cores=1, memory_bytes=1))  # fmt: skip
    assert read_document(put(tmp_path / "s.json", bare)).summary == "smoke, 1 passed, 1 failed, no GPU, driver none"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"image": ""}, "does not say in which image the checks ran"),
        ({"image": "sha256:12"}, "does not say in which image"),
        ({"runs": ()}, "nothing was run"),
        ({"started": ""}, "does not say when"),
        ({"machine": None}, "does not say when, or on what machine"),
        ({"started": "2026-11-30T20:00:00"}, "no time zone"),
        ({"profile": "nothing"}, "no profile named"),
        ({"version": 2}, "version 2 of a smoke report"),
    ],
)
def test_a_report_that_lacks_something_is_not_signed(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as refused:
        read_document(put(tmp_path / "s.json", smoke_report(**change)))
    assert says in refused.value.what
    assert refused.value.fix


def test_a_report_of_an_older_orbit_says_what_it_lacks(tmp_path: Path) -> None:
    old = json.loads(msgspec.json.encode(smoke_report()))
    for key in ("started", "machine", "environment"):
        del old[key]
    with pytest.raises(InputError, match="does not say when") as refused:
        read_document(put(tmp_path / "s.json", old))
    assert "again" in refused.value.fix


def test_a_qualification_record(tmp_path: Path) -> None:
    path = put(tmp_path / "q.json", qualification())
    read = read_document(path)
    assert (read.statement.predicate_type, read.statement.subject[0].name) == (QUALIFICATION, "orbit/cu130")
    assert read.statement.predicate == json.loads(path.read_bytes())
    assert times_of(read.statement, "x") == (dt.datetime.fromisoformat(MADE),)
    assert read.summary == "qualification, passed, NVIDIA H200"
    for change in ({"profile": ""}, {"image": ""}, {"image": "latest"}):
        with pytest.raises(InputError, match="does not say of which profile or image"):
            read_document(put(tmp_path / "q.json", qualification(**change)))
    with pytest.raises(InputError, match="no time zone"):
        read_document(put(tmp_path / "q.json", qualification(recorded="2026-11-30T20:00:00")))
    with pytest.raises(InputError, match="more"):
        read_document(put(tmp_path / "q.json", {"schema": "orbit.qualification/1", "more": 1}))


@pytest.mark.parametrize("value", [{}, [], 5, {"schema": "orbit.audit/2"}, {"schema": 5}, {"schema": ["a"]}])
def test_other_documents_are_not_signed_alone(tmp_path: Path, value: object) -> None:
    with pytest.raises(InputError, match="nothing that is signed alone") as refused:
        read_document(put(tmp_path / "x.json", value))
    assert "orbit image smoke" in refused.value.fix


def test_what_two_readers_could_read_differently_is_not_signed(tmp_path: Path) -> None:
    path = put(tmp_path / "s.json", smoke_report())
    path.write_bytes(path.read_bytes().replace(b'{"schema"', b'{"engine":"x","schema"', 1))
    with pytest.raises(InputError, match="'engine' stands twice"):
        read_document(path)
    with pytest.raises(InputError, match="no such file"):
        read_document(tmp_path / "absent.json")


@given(st.data())
def test_a_damaged_document_is_a_sentence_or_still_a_document(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    whole = bytearray(msgspec.json.encode(smoke_report()))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    path.write_bytes(bytes(whole[: data.draw(st.integers(place, len(whole)))]))
    found = attempt(lambda: read_document(path))
    assert found.fix if isinstance(found, InputError) else found.statement.predicate_type == SMOKE
