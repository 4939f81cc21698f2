"""The gate from end to end, over a miniature run: a bundle or nothing, one gate at a time."""

from __future__ import annotations

import datetime as dt
import errno
import json
import os
from pathlib import Path

import msgspec
import pytest

from orbit.cli import build_parser
from orbit.core.console import Silent
from orbit.errors import InputError, MissingError, RefusedError
from orbit.release.attest.keys import write_new
from orbit.release.attest.signers import LocalSigner
from orbit.release.attest.statement import PREDICATES
from orbit.release.attest.trust import TrustRule
from orbit.release.bundle import write
from orbit.release.bundle.model import RELEASE
from orbit.release.gate import cleanroom, run
from orbit.release.gate.cleanroom import Options
from orbit.release.gate.collect import Places
from orbit.release.gate.facts import CLEAN_ROOM_FILE, SECOND_PREFIX_FILE, CleanRoom
from orbit.release.gate.run import Gate, build_again, open_gate, release, take_in
from orbit.release.seal import broken, read_seal
from tests.release.gate.made_run import NOW, ROOT, TRUE, MadeRun


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are checked in their own test."""
    monkeypatch.setattr(run, "check_documents", lambda _root, _parser: TRUE)


def gate(tmp_path: Path, **changes: object) -> tuple[Gate, MadeRun, LocalSigner]:
    """A gate that trusts the key of the machine in ``MadeRun``, and the key of the release."""
    for name in ("lab", "publisher"):
        write_new(tmp_path / name)
    made = MadeRun(tmp_path, key=LocalSigner.load(tmp_path / "lab"), **changes).write()  # type: ignore[arg-type]
    rule = TrustRule(name="lab", key=str(tmp_path / "lab.pub"), may_sign=tuple(PREDICATES))
    definition = msgspec.structs.replace(made.definition, trust=(rule,))
    places = Places(ROOT, made.folder, made.elsewhere)
    return (
        Gate(made.profile, places, definition, build_parser(), Silent()),
        made,
        LocalSigner.load(tmp_path / "publisher"),
    )


def options(tmp_path: Path) -> Options:
    return Options(place=tmp_path / "room")


def now() -> dt.datetime:
    return NOW


def test_a_release_has_a_bundle(tmp_path: Path) -> None:
    judged, made, signer = gate(tmp_path)
    out = tmp_path / "out"
    decision, bundle = release(judged, options(tmp_path), signer, out, again=False, now=now)
    assert decision.release
    assert bundle is not None
    assert bundle.index.image.digest == made.digest
    assert [target.state for target in bundle.index.targets] == ["proven", "proven"]
    assert (out / RELEASE).is_file()
    assert "RELEASE.md" in {path.name for path in out.iterdir()}


def test_what_is_refused_leaves_no_bundle(tmp_path: Path) -> None:
    judged, _, signer = gate(tmp_path, prefix=None)
    decision, bundle = release(judged, options(tmp_path), signer, tmp_path / "out", again=False, now=now)
    assert [item.requirement for item in decision.refusals] == ["second-prefix"]
    assert bundle is None
    assert not (tmp_path / "out").exists()


def test_without_a_signer_there_is_a_decision_and_no_bundle(tmp_path: Path) -> None:
    judged, _, _ = gate(tmp_path)
    decision, bundle = release(judged, options(tmp_path), None, tmp_path / "out", again=False, now=now)
    assert decision.release
    assert bundle is None


def test_a_full_disk_in_the_last_step_leaves_no_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged, _, signer = gate(tmp_path)
    rename = os.rename

    def full(source: object, target: object) -> None:
        if Path(str(target)) == tmp_path / "out":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        rename(source, target)  # type: ignore[arg-type]

    monkeypatch.setattr(write.os, "rename", full)
    with pytest.raises(OSError, match="No space left"):
        release(judged, options(tmp_path), signer, tmp_path / "out", again=False, now=now)
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".out*"))
    monkeypatch.setattr(write.os, "rename", rename)
    assert release(judged, options(tmp_path), signer, tmp_path / "out", again=False, now=now)[1] is not None


def test_a_release_is_never_written_over(tmp_path: Path) -> None:
    judged, _, signer = gate(tmp_path)
    (tmp_path / "out").mkdir()
    with pytest.raises(RefusedError, match="out: exists"):
        release(judged, options(tmp_path), signer, tmp_path / "out", again=False, now=now)


def test_two_gates_at_once(tmp_path: Path) -> None:
    judged, _, signer = gate(tmp_path)
    with judged.lock("orbit gate cleanroom"), pytest.raises(RefusedError, match="orbit gate cleanroom is running"):
        release(judged, options(tmp_path), signer, tmp_path / "out", again=False, now=now)
    assert not (tmp_path / "out").exists()


def test_a_room_that_counts_is_not_built_again(tmp_path: Path) -> None:
    judged, _, _ = gate(tmp_path)
    found = build_again(judged, options(tmp_path), again=False, now=NOW)
    assert found.result == "same"


@pytest.mark.parametrize(
    ("room", "days", "again"),
    [({}, 0, True), ({}, 31, False), ({"result": "failed", "digest": ""}, 0, False), (None, 0, False)],
)
def test_else_it_is_and_is_added_to_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: dict[str, object] | None, days: int, again: bool
) -> None:
    judged, made, _ = gate(tmp_path, room=room)
    fresh = msgspec.structs.replace(made.clean_room(), result="same", digest=made.digest, tier="anew")
    monkeypatch.setattr(cleanroom, "clean_room", lambda _job: fresh)
    found = build_again(judged, options(tmp_path), again=again, now=NOW + dt.timedelta(days=days))
    assert found.tier == "anew"
    assert msgspec.json.decode((made.folder / CLEAN_ROOM_FILE).read_bytes(), type=CleanRoom) == fresh
    assert broken(made.folder, read_seal(made.folder)) == {}


def test_a_missing_source_ends_it_and_leaves_the_run_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged, made, signer = gate(tmp_path, room=None)

    def gone(_job: cleanroom.Job) -> CleanRoom:
        raise MissingError("the clean room cannot be built: x.tar.gz: cannot be had", fix="put it there")

    monkeypatch.setattr(cleanroom, "clean_room", gone)
    with pytest.raises(MissingError, match=r"x\.tar\.gz"):
        release(judged, options(tmp_path), signer, tmp_path / "out", again=False, now=now)
    assert not (made.folder / CLEAN_ROOM_FILE).exists()
    assert broken(made.folder, read_seal(made.folder)) == {}


def test_a_proof_made_here_is_taken_into_the_run(tmp_path: Path) -> None:
    judged, made, _ = gate(tmp_path, prefix=None)
    (made.elsewhere / SECOND_PREFIX_FILE).write_text(json.dumps(made.second_prefix()))
    assert judged.decide(NOW).release
    assert not (made.folder / SECOND_PREFIX_FILE).exists()
    take_in(judged)
    assert (made.folder / SECOND_PREFIX_FILE).is_file()
    assert judged.decide(NOW).release


def test_the_profile_is_the_one_the_run_names(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    opened = open_gate(made.folder, "", ROOT, evidence=None, parser=build_parser(), progress=Silent())
    assert opened.profile.name == "probe"
    assert opened.places.run == made.folder


def test_a_run_that_does_not_say_its_profile(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    (made.folder / "summary.json").write_text("{")
    with pytest.raises(InputError, match="does not say its profile"):
        open_gate(made.folder, "", ROOT, evidence=None, parser=build_parser(), progress=Silent())
    with pytest.raises(InputError, match="no such folder"):
        open_gate(tmp_path / "absent", "", ROOT, evidence=None, parser=build_parser(), progress=Silent())
