"""``orbit gate key``: files, what is printed, exit codes."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from orbit.cli import main
from orbit.release.attest.keys import VARIABLE
from orbit.release.attest.trust import TrustRule, load_trust


@pytest.fixture(autouse=True)
def _no_passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_a_new_key_and_the_row_that_makes_others_trust_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "keys" / "lab"
    assert main(["gate", "key", "new", str(path)]) == 0
    text = capsys.readouterr().out
    assert "not encrypted" in text
    row = tomllib.loads(text[text.index("[[trust]]") :])["trust"][0]
    trust = load_trust([TrustRule(**(row | {"may_sign": tuple(row["may_sign"])}))], tmp_path)
    assert trust.signers[0].keyid in text
    assert "PRIVATE" not in text
    assert main(["gate", "key", "show", str(path)]) == 0
    shown = capsys.readouterr().out
    assert main(["gate", "key", "show", f"{path}.pub"]) == 0
    assert capsys.readouterr().out == shown
    assert "BEGIN PUBLIC KEY" in shown
    assert "PRIVATE" not in shown


def test_nothing_is_written_over_and_an_absent_key_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "lab"
    assert main(["gate", "key", "show", str(path)]) == 3
    assert "fix: make one: orbit gate key new FILE" in capsys.readouterr().err
    assert main(["gate", "key", "new", str(path)]) == 0
    before = path.read_bytes()
    assert main(["gate", "key", "new", str(path)]) == 4
    assert main(["gate", "key", "new", str(path), "--dry-run"]) == 4
    assert path.read_bytes() == before
    path.chmod(0o644)
    assert main(["gate", "key", "show", str(path)]) == 4
    path.write_text("nothing")
    assert main(["gate", "key", "show", str(path)]) == 2


def test_json_and_dry_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lab"
    monkeypatch.setenv(VARIABLE, "correct horse")
    assert main(["gate", "key", "new", str(path), "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["encrypted"] is True
    assert list(tmp_path.iterdir()) == []
    assert main(["gate", "key", "new", str(path), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["private"], made["public"], made["encrypted"]) == (str(path), f"{path}.pub", True)
    assert main(["gate", "key", "show", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["keyid"] == made["keyid"]
    monkeypatch.delenv(VARIABLE)
    assert main(["gate", "key", "show", str(path)]) == 3
