"""The seal of a run: it names every file, and nothing gets past it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orbit.errors import InputError, RefusedError
from orbit.release.checkout import Checkout
from orbit.release.seal import SEAL, Seal, add_evidence, broken, keyed, read_seal, write_seal


def sealed(tmp_path: Path, **changes: Any) -> Path:
    for name, text in (("one.json", "1"), ("two.json", "2"), ("image/index.json", "{}"), ("image/blobs/x", "y")):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    values: dict[str, Any] = {
        "run": "r", "profile": "probe", "orbit_version": "0", "image": "sha256:x",
        "checkout": Checkout(commit="ab" * 20), "files": {}, "sealed": "",
    }  # fmt: skip
    write_seal(tmp_path, Seal(**(values | changes)))
    return tmp_path


def test_it_names_every_file_but_itself_and_the_blobs(tmp_path: Path) -> None:
    seal = read_seal(sealed(tmp_path))
    assert set(seal.files) == {"one.json", "two.json", "image/index.json"}
    assert seal.sealed.endswith("+00:00")
    assert broken(tmp_path, seal) == {}


def test_the_key_is_of_all_of_it(tmp_path: Path) -> None:
    seal = read_seal(sealed(tmp_path))
    assert keyed(seal) == seal
    for change in ({"run": "q"}, {"image": ""}, {"sealed": "x"}, {"files": {}}, {"checkout": Checkout()}):
        assert keyed(msgspec.structs.replace(seal, **change)).key != seal.key  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda data: data | {"image": "sha256:z"}, "was edited"),
        (lambda data: data | {"key": "0" * 64}, "was edited"),
        (lambda data: data | {"schema": "orbit.evidence/2"}, "not known"),
        (lambda data: data | {"more": 1}, "more"),
        (lambda data: {key: data[key] for key in data if key != "run"}, "run"),
    ],
)
def test_an_edited_seal_is_none(tmp_path: Path, edit: Any, says: str) -> None:
    path = sealed(tmp_path) / SEAL
    path.write_text(json.dumps(edit(json.loads(path.read_text()))))
    with pytest.raises(InputError, match=says):
        read_seal(tmp_path)


def test_one_that_is_only_spelt_otherwise_is_none(tmp_path: Path) -> None:
    path = sealed(tmp_path) / SEAL
    path.write_bytes(path.read_bytes().replace(b"  ", b" "))
    with pytest.raises(InputError, match="was edited"):
        read_seal(tmp_path)


def test_a_run_without_one_is_not_finished(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="was not finished"):
        read_seal(tmp_path)


def test_what_changed_is_told_by_name(tmp_path: Path) -> None:
    seal = read_seal(sealed(tmp_path))
    (tmp_path / "one.json").write_text("other")
    (tmp_path / "two.json").unlink()
    (tmp_path / "three.json").write_text("3")
    told = broken(tmp_path, seal)
    assert {name: how.split(" since")[0] for name, how in told.items()} == {
        "one.json": "was changed",
        "two.json": "is gone",
        "three.json": "was added",
    }


def test_evidence_is_added_under_a_new_seal(tmp_path: Path) -> None:
    add_evidence(sealed(tmp_path), "room.json", Checkout(commit="c"))
    seal = read_seal(tmp_path)
    assert "room.json" in seal.files
    assert (seal.run, seal.image) == ("r", "sha256:x")
    add_evidence(tmp_path, "room.json", Checkout(commit="d"))
    assert broken(tmp_path, read_seal(tmp_path)) == {}
    assert json.loads((tmp_path / "room.json").read_text())["commit"] == "d"


def test_a_changed_run_is_not_sealed_again(tmp_path: Path) -> None:
    sealed(tmp_path)
    (tmp_path / "one.json").write_text("forged")
    with pytest.raises(RefusedError, match=r"one\.json: was changed"):
        add_evidence(tmp_path, "room.json", Checkout())
    assert not (tmp_path / "room.json").exists()


def test_a_kill_between_file_and_seal_is_mended_by_the_next(tmp_path: Path) -> None:
    (sealed(tmp_path) / "room.json").write_text("half of another time")
    add_evidence(tmp_path, "room.json", Checkout(commit="c"))
    assert broken(tmp_path, read_seal(tmp_path)) == {}
