"""A decision as people read it, and the small readers: text, case, facts, sboms."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.errors import InputError
from orbit.release.gate.facts import CLEAN_ROOM_FILE
from orbit.release.gate.sboms import parse_sbom, read_sbom
from orbit.release.gate.text import headline, render
from orbit.release.sbom.write import render as render_sbom
from tests.release.gate.made_run import MadeRun, inventory


def test_a_release_says_so_first(tmp_path: Path) -> None:
    made = MadeRun(tmp_path)
    decision = made.decide()
    text = render(decision, made.definition)
    assert text.splitlines()[0] == "probe: a release"
    assert decision.digest in text.splitlines()[1]
    assert "fix:" not in text
    assert "Why" not in text


def test_an_unproven_gpu_is_on_the_first_line(tmp_path: Path) -> None:
    decision = MadeRun(tmp_path, signed={"b200.intoto.json": ("", None)}).decide()
    assert headline(decision) == "probe: a release, unproven on b200"


def test_a_refusal_has_its_reason_its_fix_and_why_it_is_asked_for(tmp_path: Path) -> None:
    made = MadeRun(tmp_path, room=None)
    text = render(made.decide(), made.definition)
    assert text.splitlines()[0] == "probe: not a release: 1 of 13 requirements are not met"
    assert "missing   clean-room      nobody built it again from nothing [clean-room.json]" in text
    assert "fix: orbit gate cleanroom --profile probe" in text
    assert "  clean-room     what only the builder's machine can build" in text
    assert max(map(len, text.splitlines())) <= 130


def test_a_file_that_is_the_subject_stands_first(tmp_path: Path) -> None:
    made = MadeRun(tmp_path).write()
    (made.folder / CLEAN_ROOM_FILE).unlink()
    text = render(made.decide(), made.definition)
    assert "evidence        clean-room.json is gone since the run was sealed" in text


def test_colours_are_for_terminals(tmp_path: Path) -> None:
    made = MadeRun(tmp_path)
    decision = made.decide()
    assert "\x1b[32mmet" in render(decision, made.definition, color=True)
    assert "\x1b" not in render(decision, made.definition)


@pytest.mark.parametrize("form", ["cyclonedx", "spdx"])
def test_bills_of_materials_are_counted(tmp_path: Path, form: str) -> None:
    digest = "sha256:" + "9f" * 32
    path = tmp_path / "b.json"
    path.write_bytes(render_sbom(inventory(digest, 5), form))
    found = read_sbom(path, form)
    assert (found.digest, found.components, found.file) == (digest, 5, "b.json")


@pytest.mark.parametrize("form", ["cyclonedx", "spdx"])
@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"bomFormat": "CycloneDX", "spdxVersion": "SPDX-2.3"}', b"\xff"])
def test_what_is_none(form: str, data: bytes) -> None:
    with pytest.raises(InputError, match=r"b\.json"):
        parse_sbom(data, form, "b.json")


@pytest.mark.parametrize("form", ["cyclonedx", "spdx"])
def test_one_that_names_no_image(form: str) -> None:
    with pytest.raises(InputError, match="names no image"):
        parse_sbom(render_sbom(inventory("sha256:short"), form), form, "b.json")
