"""``orbit gate verify``: exit status, what people see first, what programs get."""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

from orbit.cli import main
from orbit.errors import ExitCode
from orbit.release.attest.keys import private_pem, public_pem
from orbit.release.bundle.write import write_archive, write_bundle
from orbit.release.gate.model import load_definition
from tests.release.bundle.world import World
from tests.source import ROOT

SCHEMAS = {"bundle": "release.json", "report": "release-report.json"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A release, with its archive and the public keys."""
    made = World(tmp_path_factory.mktemp("release")).make()
    bundle = made.bundle()
    write_archive(bundle, made.place / "bundle.tar")
    for name, signer in (("publisher", made.signer), ("lab", made.lab)):
        (made.place / f"{name}.pub").write_bytes(public_pem(signer.key.public_key()))
    return made


def verify(world: World, *words: str, bundle: str = "bundle", key: str = "publisher.pub") -> int:
    keys = ["--key", str(world.place / key)] if key else []
    return main(["gate", "verify", str(world.place / bundle), *keys, *words])


@pytest.mark.parametrize("bundle", ["bundle", "bundle.tar"])
def test_verified_is_0_and_the_first_line_says_so(
    world: World, capsys: pytest.CaptureFixture[str], bundle: str
) -> None:
    assert verify(world, "--key", str(world.place / "lab.pub"), bundle=bundle) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == f"VERIFIED: orbit/probe@{world.digest}: proven on h100; NOT PROVEN on b200"


def test_changed_is_1(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shutil.copytree(world.place / "bundle", tmp_path / "b")
    (folder / "uv.lock").write_bytes(b"x")
    assert main(["gate", "verify", str(folder), "--key", str(world.place / "publisher.pub")]) == 1
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("NOT TO BE TRUSTED")
    assert any("uv.lock was changed" in line for line in rest)


def test_another_key_is_1(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(world, key="lab.pub") == 1
    assert "contradicted: signature" in capsys.readouterr().out


def test_no_key_is_3(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(world, key="") == 3
    out = capsys.readouterr().out
    assert out.startswith("NOT VERIFIED")
    assert "--key FILE" in out


def test_no_bundle_is_2(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "odd").mkdir()
    for place in (tmp_path / "odd", tmp_path / "nothing", ROOT / "README.md"):
        assert main(["gate", "verify", str(place), "--key", str(world.place / "publisher.pub")]) == ExitCode.USAGE
    assert main(["gate", "verify"]) == ExitCode.USAGE
    assert capsys.readouterr().err.count("fix:") == 4


def test_what_is_named_and_not_there_is_3(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(world, key="gone.pub") == ExitCode.MISSING
    assert verify(world, "--image", str(world.place / "gone")) == ExitCode.MISSING
    assert capsys.readouterr().err.count("fix:") == 2


def test_a_key_from_the_bundle_is_refused(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    (key,) = (world.place / "bundle" / "keys").glob("release-*.pub")
    assert verify(world, "--key", str(key)) == ExitCode.REFUSED
    assert "came with the bundle" in capsys.readouterr().err


def test_the_image_beside_it(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(world, "--image", str(world.run / "image")) == 0
    assert "every byte read" in " ".join(capsys.readouterr().out.split())
    assert verify(world, "--image", "sha256:" + "0" * 64) == 1


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "docs" / "schemas" / SCHEMAS[name]).read_text())
    return found


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_the_published_ones(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", "verify", "--schema", name]) == 0
    assert capsys.readouterr().out == (ROOT / "docs" / "schemas" / SCHEMAS[name]).read_text()


def test_programs_get_what_the_schemas_say(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    jsonschema.validate(json.loads((world.place / "bundle" / "bundle.json").read_bytes()), schema("bundle"))
    assert verify(world, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    jsonschema.validate(answer, schema("report"))
    assert answer["verdict"] == "verified"
    assert {item["state"] for item in answer["report"]["claims"]} <= {
        "proven",
        "unproven",
        "contradicted",
        "not checked",
    }
    assert answer["report"]["targets"] == [
        {"name": "h100", "state": "not checked"},
        {"name": "b200", "state": "unproven"},
    ]


def test_a_written_bundle_may_be_verified_where_it_lies(world: World, tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path / "x" / "b", world.parts(), world.signer)
    assert main(["gate", "verify", str(bundle.folder), "--key", str(world.place / "publisher.pub")]) == 0


def test_what_the_gate_writes_as_one_file_is_verified(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``orbit gate run --tar``, with the gate's hour of work done already."""
    bundle, decision = write_bundle(tmp_path / "x", world.parts(), world.signer), world.decision()
    key = tmp_path / "key"
    key.touch(0o600)
    key.write_bytes(private_pem(world.signer.key))
    places = SimpleNamespace(run=world.run)
    gate = SimpleNamespace(profile=world.profile, places=places, definition=load_definition(world.root))
    module = importlib.import_module("orbit.cli.gate.run")
    monkeypatch.setattr(module, "gate_of", lambda _args: gate)
    monkeypatch.setattr(module, "room_of", lambda *_: None)
    monkeypatch.setattr("orbit.release.gate.run.release", lambda *_, **__: (decision, bundle))
    assert main(["gate", "run", "--key", str(key), "--out", str(bundle.folder), "--tar"]) == 0
    archive = tmp_path / "x.tar"
    assert f"archive {archive}" in capsys.readouterr().out
    assert main(["gate", "verify", str(archive), "--key", str(world.place / "publisher.pub")]) == 0
