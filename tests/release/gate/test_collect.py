"""Reading a run: every file that was edited, lost or added is seen, by the seal or by what others contradict.

``contradict`` is asked through the whole: an edit that was sealed again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.errors import InputError
from orbit.profile.model import load_profile
from orbit.release.attest.trust import Trust
from orbit.release.gate.case import Mark
from orbit.release.gate.collect import Places, collect
from orbit.release.gate.decide import Decision
from tests.release.gate.made_run import NOW, ROOT, MadeRun

FILES = (
    "01-lock.json", "02-kernels.json", "03-environment.json", "04-audit.json", "05-image.json", "06-image-audit.json",
    "07-sbom.json", "08-smoke.json", "audit.json", "clean-room.json", "evidence.json", "image-audit.json",
    "image/index.json", "image/oci-layout", "kernels.json", "sbom.cdx.json", "sbom.spdx.json", "second-prefix.json",
    "smoke.json", "summary.json", "summary.md",
)  # fmt: skip


def files_of(folder: Path) -> set[str]:
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    return {name for name in found if not name.startswith("image/blobs/")}


def test_these_are_all_files_of_a_run(tmp_path: Path) -> None:
    assert files_of(MadeRun(tmp_path).write().folder) == set(FILES)


def named(decision: Decision) -> set[str]:
    return {item.file for item in decision.judgements if item.requirement == "evidence" and item.mark is not Mark.MET}


@pytest.mark.parametrize("name", FILES)
def test_an_edit_of_any_file_is_seen(tmp_path: Path, name: str) -> None:
    """The smallest edit there is: a blank that changes no meaning."""
    made = MadeRun(tmp_path).write()
    path = made.folder / name
    path.write_bytes(path.read_bytes() + b" ")
    decision = made.decide()
    assert not decision.release
    assert name in named(decision)


@pytest.mark.parametrize("name", FILES)
def test_a_lost_file_is_seen(tmp_path: Path, name: str) -> None:
    made = MadeRun(tmp_path).write()
    (made.folder / name).unlink()
    decision = made.decide()
    assert not decision.release
    assert name in named(decision) or (name.startswith("image/") and "image" in named(decision))


@pytest.mark.parametrize("name", [*FILES, "image/blobs"])
def test_a_file_that_is_no_file_ends_nothing(tmp_path: Path, name: str) -> None:
    """A folder, a link, or bytes that are no text in its place: a problem, never a traceback."""
    for number, put in enumerate((_folder, _dangling, _bytes)):
        made = MadeRun(tmp_path / str(number)).write()
        put(made.folder / name)
        assert not made.decide().release


def _folder(path: Path) -> None:
    _gone(path)
    path.mkdir()


def _dangling(path: Path) -> None:
    _gone(path)
    path.symlink_to("nowhere")


def _bytes(path: Path) -> None:
    _gone(path)
    path.write_bytes(b"\xff\xfe{")


def _gone(path: Path) -> None:
    if path.is_dir():
        path.rename(path.with_name("moved"))
    else:
        path.unlink()


def test_every_byte_of_the_image_is_held_against_its_digest(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    blobs = sorted((made.folder / "image" / "blobs" / "sha256").iterdir())
    assert len(blobs) == 3
    for number, blob in enumerate(blobs):
        twin = MadeRun(tmp_path / str(number)).write()
        path = twin.folder / "image" / "blobs" / "sha256" / blob.name
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        assert "image" in named(twin.decide())


def replaced(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return change


FORGED: list[tuple[str, Callable[[str], str]]] = [
    ("01-lock.json", replaced('"packages": 12', '"packages": 13')),
    ("02-kernels.json", replaced('"seconds": 1.0', '"seconds": 2.0')),
    ("04-audit.json", replaced('"result": "passed"', '"result": "skipped"')),
    ("08-smoke.json", replaced('"passed": 22', '"passed": 21')),
    ("summary.json", replaced('"profile": "probe"', '"profile": "cu130"')),
    ("summary.json", replaced('"verified": 0', '"verified": 1')),
    ("summary.json", replaced('"run": "probe-20261130T200000Z"', '"run": "probe-20261130T200001Z"')),
    ("summary.json", replaced('"image_digest": "sha256:', '"image_digest": "sha256:0')),
    ("summary.md", replaced("probe: passed", "probe: all fine")),
    ("kernels.json", replaced('"sm_100a"', '"sm_90a"')),
    ("kernels.json", replaced('"wheel_sha256": "d', '"wheel_sha256": "e')),
    ("audit.json", replaced('"files": 12', '"files": 13')),
    ("image-audit.json", replaced('"profile": "probe"', '"profile": "cu130"')),
    ("smoke.json", replaced('"result": "needs-driver"', '"result": "passed"')),
    ("smoke.json", replaced('"image": "sha256:', '"image": "sha256:0')),
]


@pytest.mark.parametrize(("name", "edit"), FORGED, ids=[f"{name}-{i}" for i, (name, _) in enumerate(FORGED)])
def test_an_edit_that_was_sealed_again_contradicts_another_file(
    tmp_path: Path, name: str, edit: Callable[[str], str]
) -> None:
    made = MadeRun(tmp_path).write()
    path = made.folder / name
    path.write_text(edit(path.read_text()))
    made.seal()
    assert not made.decide().release
    assert named(made.decide())


def test_a_seal_with_another_content_has_another_key(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    path = made.folder / "evidence.json"
    path.write_text(path.read_text().replace("ab" * 20, "cd" * 20))
    decision = made.decide()
    assert named(decision) == {"evidence.json"}
    assert "was edited" in decision.refusals[0].reason


def test_a_record_that_another_run_left_is_seen(tmp_path: Path) -> None:
    one, other = MadeRun(tmp_path / "a").write(), MadeRun(tmp_path / "b", lock="e" * 64).write()
    (one.folder / "01-lock.json").write_bytes((other.folder / "01-lock.json").read_bytes())
    one.seal()
    assert named(one.decide()) == {"01-lock.json"}


def test_a_duplicated_key_in_a_record_is_seen_even_when_sealed(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    path = made.folder / "audit.json"
    path.write_text(path.read_text().replace('"kind":', '"kind": "image",\n  "kind":', 1))
    made.seal()
    assert "audit.json" in named(made.decide())


@pytest.mark.parametrize("name", [".hidden", "folder"])
def test_what_no_run_leaves_is_told(tmp_path: Path, name: str) -> None:
    made = MadeRun(tmp_path).write()
    (made.folder / name).mkdir()
    assert named(made.decide()) == {name}


def test_an_additional_file_is_told(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    (made.folder / "notes.txt").write_text("all fine")
    assert named(made.decide()) == {"notes.txt"}


def test_a_schema_of_tomorrow_is_not_read(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    path = made.folder / "summary.json"
    path.write_text(path.read_text().replace("orbit.summary/1", "orbit.summary/2"))
    made.seal()
    assert any("orbit.summary/2" in item.reason for item in made.decide().refusals)


def test_a_run_of_an_older_orbit_has_no_seal_and_says_so(tmp_path: Path) -> None:
    made = MadeRun(tmp_path, room=None, prefix=None).write()
    (made.folder / "evidence.json").unlink()
    found = [item for item in made.decide().judgements if item.requirement == "evidence"]
    assert [(item.mark, item.file) for item in found] == [(Mark.MISSING, "evidence.json")]


def test_no_folder_is_no_run(tmp_path: Path) -> None:
    places = Places(ROOT, tmp_path / "absent")
    with pytest.raises(InputError, match=r"absent: no such folder"):
        collect(places, load_profile("probe"), trust=Trust(), now=NOW, documents=None, progress=Silent())


def test_nothing_but_a_folder_gives_evidence_with_nothing_in_it(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    places = Places(ROOT, tmp_path / "empty")
    found = collect(places, load_profile("probe"), trust=Trust(), now=NOW, documents=None, progress=Silent())
    assert (found.summary, found.image, found.digest) == (None, None, "")
    assert [problem.file for problem in found.problems] == ["evidence.json"]


def test_numbers_keep_their_spelling(tmp_path: Path) -> None:
    """Reading and writing again is how an edit of the spelling is seen: it must not see what nobody edited."""
    made = MadeRun(tmp_path).write()
    for path in made.folder.glob("*.json"):
        if not path.name.startswith("sbom."):
            again = json.dumps(json.loads(path.read_text()), indent=2, sort_keys=True, ensure_ascii=False)
            assert path.read_text().split() == (again + "\n").split() or path.name == "evidence.json"
