"""Evidence of other machines: believed, or refused by name and reason."""

from __future__ import annotations

import base64
import datetime as dt
import json
from pathlib import Path

import pytest

from orbit.errors import InputError
from orbit.release.attest.trust import Trust
from orbit.release.gate.attestations import read_attestations
from orbit.release.gate.case import Mark
from tests.release.attest.world import signer
from tests.release.gate.made_run import NOW, MadeRun, smoke_gpu


def refused(made: MadeRun, now: dt.datetime = NOW) -> list[tuple[str, str]]:
    return [(item.requirement, item.file) for item in made.decide(now).refusals]


def said(made: MadeRun, now: dt.datetime = NOW) -> str:
    return " ".join(item.reason for item in made.decide(now).refusals)


def test_a_key_nobody_trusts(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    made.sign("h100.intoto.json", "smoke", smoke_gpu(made.digest, "H200", "9.0"), who=signer())
    assert refused(made) == [("smoke-gpu", "h100.intoto.json")]
    assert "not trusted" in said(made)


def test_nobody_is_trusted(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    believed, problems, hashes = read_attestations(made.elsewhere, Trust(), digest=made.digest, now=NOW)
    assert believed == ()
    assert {problem.file for problem in problems} == set(hashes)
    assert all("no key is trusted" in problem.what for problem in problems)


def test_another_image(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    made.sign("h100.intoto.json", "smoke", smoke_gpu(made.digest, "H200", "9.0"), digest="sha256:" + "1" * 64)
    assert refused(made) == [("smoke-gpu", "h100.intoto.json")]
    assert "is about orbit/probe sha256:1111" in said(made)


def test_a_report_about_another_image_in_a_statement_about_this_one(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    made.sign("h100.intoto.json", "smoke", smoke_gpu("sha256:" + "1" * 64, "H200", "9.0"))
    assert refused(made) == [("smoke-gpu", "h100.intoto.json")]


@pytest.mark.parametrize(("file", "requirement"), [("h100", "smoke-gpu"), ("numbers", "qualification")])
def test_an_edited_statement(tmp_path: Path, file: str, requirement: str) -> None:
    made = MadeRun(tmp_path).write()
    path = made.elsewhere / f"{file}.intoto.json"
    envelope = json.loads(path.read_text())
    statement = base64.b64decode(envelope["payload"]).replace(b'"passed"', b'"PASSED"', 1)
    envelope["payload"] = base64.b64encode(statement).decode()
    path.write_text(json.dumps(envelope))
    assert refused(made) == [(requirement, path.name)]
    assert "does not match" in said(made)


def test_no_signature(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    path = made.elsewhere / "h100.intoto.json"
    envelope = json.loads(path.read_text())
    path.write_text(json.dumps(envelope | {"signatures": []}))
    assert ("evidence", path.name) in refused(made)
    assert "0 signatures" in said(made)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b'{"payload": 1}'])
def test_what_is_no_envelope(tmp_path: Path, data: bytes) -> None:
    made = MadeRun(tmp_path).write()
    (made.elsewhere / "odd.intoto.json").write_bytes(data)
    assert refused(made) == [("evidence", "odd.intoto.json")]


def test_from_the_future(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    later = smoke_gpu(made.digest, "H200", "9.0", started="2026-12-24T00:00:00+00:00")
    made.sign("h100.intoto.json", "smoke", later)
    assert refused(made) == [("smoke-gpu", "h100.intoto.json")]
    assert "2026-12-24" in said(made)


def test_a_clock_that_is_wrong_here_refuses_everything_that_is_dated(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    back = NOW - dt.timedelta(days=400)
    assert {"lock", "audit", "smoke-cpu", "clean-room", "smoke-gpu", "qualification"} <= {
        requirement for requirement, _ in refused(made, back)
    }


def test_expired(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    later = NOW + dt.timedelta(days=91)
    refusals = [item for item in made.decide(later).refusals if item.requirement in ("smoke-gpu", "qualification")]
    assert {item.file for item in refusals} == {"h100.intoto.json", "b200.intoto.json", "numbers.intoto.json"}
    assert all("91 days old; at most 90" in item.reason for item in refusals)


def test_a_file_that_is_not_read_is_told(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    (made.elsewhere / "smoke.json").write_text("{}")
    found = [(item.file, item.mark) for item in made.decide().refusals]
    assert found == [("smoke.json", Mark.REFUSED)]


def test_a_kind_the_gate_does_not_know_is_refused(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    made.sign("page.intoto.json", "release", {"decided": NOW.isoformat()})
    decision = made.decide()
    assert decision.release  # it is believed, and shows nothing that is asked for
    assert "page.intoto.json" in decision.evidence


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        read_attestations(tmp_path / "absent", Trust(), digest="", now=NOW)
