"""Files and folders of manifests: what is judged, what is left out, and what nobody may write into a report."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.errors import InputError
from orbit.launch.lint import run as module
from orbit.launch.lint.known import Known
from orbit.launch.lint.rules import RULES
from orbit.launch.lint.run import (
    has_manifest,
    is_manifest,
    lint_files,
    lint_files_of,
    lint_text,
    manifests_in,
    rule_list,
)
from tests.launch.lint.sound import JOB, SOUND, changed

GOLDEN = Path(__file__).parents[1] / "render" / "golden"
RENDERED = sorted(path for path in GOLDEN.rglob("*") if path.is_file())


def fill(folder: Path) -> None:
    for name, text in SOUND.items():
        (folder / name).write_text(text)
    (folder / "values.yaml").write_text("replicas: 1\n")
    (folder / "tool.sh").write_text("#!/bin/sh\necho\n")
    (folder / "chart.yaml").write_text("apiVersion: v1\nkind: Pod\nspec:\n{{ toYaml .Values.x }}\n  a: b\n")
    (folder / ".git").mkdir()
    (folder / ".git" / "job.yaml").write_text(JOB)


def test_a_folder(tmp_path: Path) -> None:
    fill(tmp_path)
    assert [path.name for path in manifests_in(tmp_path)] == sorted([*SOUND, "chart.yaml"])
    assert has_manifest(tmp_path)
    assert not has_manifest(tmp_path / ".git" / "none")
    linted = lint_files([tmp_path], Known(ray="2.55.1"), base=tmp_path)
    assert linted.findings == ()
    assert linted.facts["files"] == len(SOUND)
    assert linted.facts["workloads"] == len(SOUND)
    assert [(item.what, item.reason) for item in linted.skipped] == [
        ("chart.yaml", "a template, not a manifest: render it first")
    ]


def test_a_file_that_is_named_must_be_one(tmp_path: Path) -> None:
    fill(tmp_path)
    assert not is_manifest(tmp_path / "values.yaml")
    (finding,) = lint_files([tmp_path / "values.yaml"]).findings
    assert finding.rule == "unreadable-manifest"
    (finding,) = lint_files([tmp_path / "chart.yaml"]).findings
    assert "helm template" in finding.message
    linted = lint_files([tmp_path / "tool.sh"])
    assert linted.findings == ()
    assert linted.skipped[0].reason == "a script that starts no container"


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        lint_files([tmp_path / "a.yaml"])
    with pytest.raises(InputError, match="no manifest in it"):
        lint_files([tmp_path])


def test_a_folder_without_end_is_left_half_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path)
    (tmp_path / "z").mkdir()
    (tmp_path / "z" / "job.yaml").write_text(JOB)
    monkeypatch.setattr(module, "MOST_FILES", 3)
    linted = lint_files([tmp_path], base=tmp_path)
    assert linted.facts["files"] == len(SOUND)
    assert any("only what came first" in item.reason for item in linted.skipped)


def test_texts_and_rules_that_are_chosen() -> None:
    text = changed(JOB, ("sizeLimit: 16Gi", "sizeLimit: 128Gi"), ("  backoffLimit: 0\n", ""))
    assert {finding.rule for finding in lint_text(text, "a.yaml")} == {"shared-memory", "job-retry"}
    assert [finding.rule for finding in lint_text(text, "a.yaml", rules=frozenset({"job-retry"}))] == ["job-retry"]
    linted = lint_files_of([("a.yaml", text.encode()), ("b.sh", b"#!/bin/sh\n")])
    assert (len(linted.findings), len(linted.skipped)) == (2, 1)


def test_lines_are_those_of_the_file() -> None:
    text = changed(JOB, ("sizeLimit: 16Gi", "sizeLimit: 128Gi"))
    (finding,) = lint_text(text.replace("\n", "\r\n"), "deploy/a.yaml")
    line = next(number for number, row in enumerate(text.splitlines(), 1) if "128Gi" in row)
    assert finding.subject == f"deploy/a.yaml:{line} Job/train pod/trainer"


def test_the_list_names_every_rule() -> None:
    assert [line.split()[0] for line in rule_list()] == list(RULES)


@pytest.mark.parametrize("path", RENDERED, ids=[path.relative_to(GOLDEN).as_posix() for path in RENDERED])
def test_what_orbit_renders_is_clean(path: Path) -> None:
    assert lint_text(path.read_bytes(), path.name, known=Known(ray="2.55.1")) == ()


def test_there_is_something_rendered() -> None:
    read = [lint_files([path]).facts["workloads"] for path in RENDERED]
    assert sum(count > 0 for count in read) >= 10
