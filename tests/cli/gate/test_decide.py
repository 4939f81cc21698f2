"""``orbit gate decide``, ``run`` and ``cleanroom`` at their edge: options, exit codes, what is printed."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from orbit.cli import build_parser, main
from orbit.errors import ExitCode
from orbit.release.attest.keys import write_new
from orbit.release.gate import cleanroom as room
from orbit.release.gate import run
from tests.release.gate.made_run import TRUE, MadeRun


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Pages are checked in their own test; a cache of its own."""
    monkeypatch.setattr(run, "check_documents", lambda _root, _parser: TRUE)
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "cache"))


def test_a_refusal_is_one_and_tells_people_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = MadeRun(tmp_path).write()
    assert main(["gate", "decide", str(made.folder)]) == ExitCode.FINDINGS
    out = capsys.readouterr().out
    assert out.startswith("probe: not a release:")
    assert "unproven  smoke-gpu       h100: nobody signed that it ran on H100 or H200" in out
    assert "fix: " in out


def test_the_decision_as_json_follows_its_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = MadeRun(tmp_path).write()
    assert main(["gate", "decide", "--schema"]) == ExitCode.OK
    schema = json.loads(capsys.readouterr().out)
    argv = ["gate", "decide", str(made.folder), "--evidence", str(made.elsewhere), "--json"]
    assert main(argv) == ExitCode.FINDINGS
    decision = json.loads(capsys.readouterr().out)
    jsonschema.validate(decision, schema)
    assert decision["release"] is False
    assert {item["requirement"] for item in decision["judgements"] if item["mark"] == "refused"} >= {"smoke-gpu"}


@pytest.mark.parametrize(
    ("argv", "status", "says"),
    [
        (["decide", "absent"], ExitCode.USAGE, "absent: no such folder"),
        (["decide", "--profile", "nothing"], ExitCode.USAGE, "no profile named 'nothing'"),
        (["decide", "RUN", "--evidence", "absent"], ExitCode.USAGE, "absent: no such folder"),
        (["run", "RUN"], ExitCode.USAGE, "who signs the release?"),
        (["run", "RUN", "--key", "k", "--sigstore"], ExitCode.USAGE, "who signs the release?"),
        (["run", "RUN", "--key", "absent"], ExitCode.MISSING, "absent"),
        (["cleanroom", "RUN", "--fence", "high"], ExitCode.USAGE, "invalid choice"),
    ],
)
def test_mistakes(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    argv: list[str],
    status: int,
    says: str,
) -> None:
    made = MadeRun(tmp_path, room=None, prefix=None).write()
    monkeypatch.chdir(tmp_path)
    words = ["gate", *(str(made.folder) if word == "RUN" else word for word in argv)]
    try:
        found = main(words)
    except SystemExit as stopped:
        found = int(str(stopped.code))
    assert found == status
    assert says in capsys.readouterr().err
    assert not (made.folder / "clean-room.json").exists()


def test_a_dry_run_of_the_clean_room_says_all_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import orbit.release.gate.room

    monkeypatch.setattr(orbit.release.gate.room, "require_commit", lambda _root, _commit: None)
    made = MadeRun(tmp_path, room=None).write()
    before = sorted(path.name for path in made.folder.iterdir())
    assert main(["gate", "cleanroom", str(made.folder), "--dry-run", "--json"]) == ExitCode.OK
    steps = json.loads(capsys.readouterr().out)
    assert steps["candidate"] == made.digest
    assert steps["command"].startswith("./orbitw ship --profile probe --kernels core --dist ")
    assert "github.com" in steps["hosts"]
    assert steps["fence"].split(":")[0] in ("namespace", "proxy")
    assert sorted(path.name for path in made.folder.iterdir()) == before
    write_new(tmp_path / "key")
    argv = ["gate", "run", str(made.folder), "--key", str(tmp_path / "key"), "--dry-run"]
    assert main(argv) == ExitCode.OK
    assert f"bundle       {made.folder.parent}/probe-" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("result", "status"), [("same", ExitCode.OK), ("different", ExitCode.FINDINGS), ("failed", ExitCode.FINDINGS)]
)
def test_the_clean_room_at_its_edge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, result: str, status: int
) -> None:
    made = MadeRun(tmp_path, room=None).write()
    made.room = {"result": result, "digest": made.digest if result == "same" else "", "differences": ("a line",)}
    monkeypatch.setattr(room, "clean_room", lambda _job: made.clean_room())
    assert main(["gate", "cleanroom", str(made.folder)]) == status
    out = capsys.readouterr().out
    assert out.startswith(f"probe: {result}, commit abababababab")
    assert "example.com (3)" in out
    assert main(["gate", "cleanroom", str(made.folder), "--json"]) == status
    assert json.loads(capsys.readouterr().out)["result"] == result


def test_run_writes_a_bundle_of_a_release_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is trusted by the shipped definition, so nothing can be qualified: refused, and nothing written."""
    made = MadeRun(tmp_path).write()
    write_new(tmp_path / "key")
    out = tmp_path / "out"
    monkeypatch.setattr(room, "clean_room", lambda _job: made.clean_room())
    argv = ["gate", "run", str(made.folder), "--key", str(tmp_path / "key"), "--out", str(out), "--again"]
    assert main(argv) == ExitCode.FINDINGS
    assert "qualification   nobody signed a record" in capsys.readouterr().out
    assert not out.exists()


def test_options_and_run_come_through_every_building_of_the_parser() -> None:
    """The action ``run`` is a module of that name: it must not take the place of the command's own function."""
    for _ in range(2):
        args = build_parser().parse_args(["gate", "decide"])
        assert callable(args.run)
        assert callable(args.act)
