"""``orbit gate attest``: from a report to a file that others believe; exit codes and sentences."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import jsonschema
import pytest

from orbit.cli import main
from orbit.cli.gate.attest import SCHEMAS
from orbit.core.paths import data_root
from orbit.release.attest.dsse import read_envelope
from orbit.release.attest.keys import VARIABLE, write_new
from orbit.release.attest.statement import SMOKE
from orbit.release.attest.trust import TrustRule, load_trust, verify
from tests.release.attest.test_documents import put, smoke_report
from tests.release.attest.world import IMAGE


@pytest.fixture(autouse=True)
def _no_passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def report(tmp_path: Path) -> Path:
    return put(tmp_path / "smoke.json", smoke_report())


def test_a_report_becomes_something_others_believe(
    report: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = write_new(tmp_path / "lab")
    assert main(["gate", "attest", str(report), "--key", str(key.private)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("signed smoke, 2 passed, NVIDIA H200, driver 580.65.06")
    assert key.keyid in text
    trust = load_trust([TrustRule(name="lab", key="lab.pub", may_sign=("smoke",))], tmp_path)
    envelope = read_envelope(tmp_path / "smoke.intoto.json")
    found = verify(envelope, trust, predicate_type=SMOKE, subject_digest=IMAGE, now=dt.datetime.now(dt.UTC))
    assert found.statement.predicate == json.loads(report.read_bytes())


def test_json_and_dry_run(report: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key, out = write_new(tmp_path / "lab"), tmp_path / "evidence" / "h200.intoto.json"
    words = ["gate", "attest", str(report), "--key", str(key.private), "--output", str(out), "--json"]
    assert main([*words, "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["written"] is False
    assert not out.parent.exists()
    assert main(words) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["output"], said["image"], said["predicate_type"]) == (str(out), IMAGE, SMOKE)
    assert out.is_file()


def test_who_signs_must_be_said_once(report: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", "attest", str(report)]) == 2
    assert "who signs?" in capsys.readouterr().err
    assert main(["gate", "attest", str(report), "--key", "k", "--sigstore"]) == 2
    assert main(["gate", "attest", str(report), "--key", "k", "--sigstore-config", "c"]) == 2
    assert main(["gate", "attest"]) == 2
    assert "no document is named" in capsys.readouterr().err


def test_exit_codes(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gate", "attest", str(report), "--key", str(tmp_path / "absent")]) == 3
    assert "there is no signing key" in capsys.readouterr().err
    key = write_new(tmp_path / "lab")
    key.private.chmod(0o666)
    assert main(["gate", "attest", str(report), "--key", str(key.private)]) == 4
    key.private.chmod(0o600)
    cut = tmp_path / "cut.json"
    cut.write_bytes(report.read_bytes()[:-40])
    assert main(["gate", "attest", str(cut), "--key", str(key.private)]) == 2
    assert "cut.json: not JSON that can be relied on" in capsys.readouterr().err
    for name in ("GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE", "CIRCLECI", "GOOGLE_SERVICE_ACCOUNT_NAME"):
        monkeypatch.delenv(name, raising=False)
    assert main(["gate", "attest", str(report), "--sigstore"]) == 3
    assert "--key FILE" in capsys.readouterr().err
    assert [path.name for path in tmp_path.glob("*.intoto.json")] == []


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_the_published_ones(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", "attest", "--schema", name]) == 0
    text = capsys.readouterr().out
    assert text.encode() == (data_root() / "docs" / "schemas" / f"{name}.json").read_bytes()
    assert jsonschema.Draft202012Validator.check_schema(json.loads(text)) is None
