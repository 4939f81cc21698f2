"""SIF: what Apptainer is asked for. The program itself is not on the machines these tests were written on."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.console import Silent
from orbit.errors import CommandFailed, InputError, MissingError
from orbit.image.damage import DamagedImage
from orbit.image.export.sif import find_apptainer, write_sif
from orbit.image.oci import read_layout
from tests.image.test_oci import damage
from tests.writers.tiny_image import file, write_image


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, script: str) -> Path:
    tool = tmp_path / "bin" / name
    tool.parent.mkdir(exist_ok=True)
    tool.write_text(f"#!/bin/sh\nif [ $1 = --version ]; then echo '{name} version 1.3.4'; exit; fi\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    return tool


@pytest.mark.parametrize("name", ["apptainer", "singularity"])
def test_the_program_builds_from_the_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    tool = stand_in(tmp_path, monkeypatch, name, f'echo "$@" > {tmp_path}/asked; echo sif > "$2"')
    layout = write_image(tmp_path / "layout", [[file("a")]])
    assert find_apptainer()[0] == tool
    assert write_sif(read_layout(layout), tmp_path / "x.sif", Silent()) == f"{name} version 1.3.4"
    assert (tmp_path / "asked").read_text() == f"build {tmp_path}/x.sif oci:{layout}\n"


def test_its_failure_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "apptainer", "echo 'FATAL: no room' >&2; exit 255")
    layout = write_image(tmp_path / "layout", [[file("a")]])
    with pytest.raises(CommandFailed, match="FATAL: no room"):
        write_sif(read_layout(layout), tmp_path / "x.sif", Silent())


def test_when_it_fails_over_a_damaged_layer_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "apptainer", "echo 'FATAL: while extracting' >&2; exit 255")
    layout = write_image(tmp_path / "layout", [[file("a")]])
    image = read_layout(layout)
    damage(image.blob(image.layers[0]))
    with pytest.raises(DamagedImage, match=rf"^{layout}: layer 0 \(sha256:[0-9a-f]{{64}}\) is damaged: its content"):
        write_sif(image, tmp_path / "x.sif", Silent())


def test_without_the_program_and_with_a_path_it_cannot_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = read_layout(write_image(tmp_path / "a:b", [[file("a")]]))
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(MissingError, match="neither apptainer nor singularity"):
        write_sif(layout, tmp_path / "x.sif", Silent())
    stand_in(tmp_path, monkeypatch, "apptainer", "exit 0")
    with pytest.raises(InputError, match="colon"):
        write_sif(layout, tmp_path / "x.sif", Silent())
