"""``orbit image sbom``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from orbit.cli import main
from orbit.core.paths import data_root
from tests.release.sbom.documents import cyclonedx_problems, spdx_problems
from tests.release.sbom.material import SITE, Files, make


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORBIT_CACHE", str(tmp_path / "store"))


def run(capsys: pytest.CaptureFixture[str], *argv: str | Path) -> tuple[int, str, str]:
    status = main(["image", "sbom", *map(str, argv)])
    out, err = capsys.readouterr()
    return status, out, err


def test_counts_are_printed_and_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = make(tmp_path / "image")
    status, out, _ = run(capsys, layout)
    assert status == 0
    assert "3  Python distributions" in out
    assert "everything that should be in it is in it" in out


@pytest.mark.parametrize("form", ["cyclonedx", "spdx"])
def test_a_document_on_stdout_is_the_one_in_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    layout = make(tmp_path / "image")
    status, out, _ = run(capsys, layout, "--format", form)
    assert status == 0
    assert (cyclonedx_problems(out) if form == "cyclonedx" else spdx_problems(json.loads(out))) == []
    status, said, _ = run(capsys, layout, "--format", form, "--out", tmp_path / "sbom.json", "--json")
    assert status == 0
    assert (tmp_path / "sbom.json").read_text() == out
    result = json.loads(said)
    assert result["schema"] == "orbit.image-sbom/1"
    assert result["files"] == {form: str(tmp_path / "sbom.json")}


def test_a_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, _ = run(capsys, make(tmp_path / "image"), "--out", tmp_path / "sbom.json", "--dry-run")
    assert status == 0
    assert not (tmp_path / "sbom.json").exists()


def hollow(files: Files) -> None:
    del files[f"{SITE}/odd.py"]


def test_what_is_missing_is_exit_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, make(tmp_path / "image", hollow))
    assert status == 1
    assert "error sbom-dist-files odd-one: 1 of 4 files of its RECORD are not in the image" in out
    assert out.endswith("1 finding\n")


def test_licences_unknown_ones_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = make(tmp_path / "image")
    status, out, _ = run(capsys, layout, "--licenses")
    assert status == 0
    assert out.index("odd-one 0.1") < out.index("numeric 2.0")
    assert f"/{SITE}/numeric-2.0.dist-info/licenses/LICENSE" in out
    status, out, _ = run(capsys, layout, "--licenses", "--strict", "--json")
    assert status == 1
    report: dict[str, Any] = json.loads(out)
    found = {(item["rule"], item["subject"]) for item in report["findings"]}
    assert ("license-unknown", "odd-one 0.1") in found
    assert ("license-text", "odd-one 0.1") in found
    assert not any(subject == "numeric 2.0" for _, subject in found)


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        ((), "no image is named"),
        (("{nothing}",), "no such file or folder"),
        (("{image}", "--strict"), "--strict is about licences"),
        (("{image}", "--licenses", "--format", "spdx"), "--licenses prints a list"),
        (("{image}", "--json", "--format", "spdx"), "both to stdout"),
        (("{image}", "--out", "{folder}"), "a folder"),
    ],
)
def test_mistakes_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], what: str
) -> None:
    places = {"image": make(tmp_path / "image"), "folder": tmp_path, "nothing": tmp_path / "nothing"}
    status, _, err = run(capsys, *(word.format(**places) for word in argv))
    assert status == 2
    assert what in err


@pytest.mark.parametrize(("name", "options"), [("image-sbom", ()), ("image-licenses", ("--licenses",))])
def test_the_published_schemas_are_those_of_the_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, options: tuple[str, ...]
) -> None:
    published = (data_root() / "docs" / "schemas" / f"{name}.json").read_text()
    command = f"orbit image sbom {' '.join((*options, '--schema'))} > docs/schemas/{name}.json"
    assert run(capsys, *options, "--schema")[1] == published, command
    _, out, _ = run(capsys, make(tmp_path / "image"), *options, "--json")
    jsonschema.validate(json.loads(out), json.loads(published))
