"""The lint as a report of the audit: formats, places, waivers."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import jsonschema
import pytest

from orbit.audit.known.policy import load_policy
from orbit.audit.reports.formats import render
from orbit.audit.reports.report import AuditReport, TargetReport, identities, json_schema
from orbit.audit.reports.text import render_reports
from orbit.launch.lint.known import Known
from orbit.launch.lint.report import lint_target
from orbit.launch.lint.rules import RULES
from orbit.profile.model import load_profile
from tests.launch.lint.sound import JOB, changed

WRONG = changed(JOB, ("sizeLimit: 16Gi", "sizeLimit: 128Gi"))
WAIVER = """\
schema = 1
[[waivers]]
rule = "shared-memory"
subject = "job.yaml:* Job/train *"
reason = "the nodes of this pool have a terabyte each"
expires = 2026-12-31
"""


def judged(folder: Path, waiver: str = "", today: dt.date = dt.date(2026, 12, 1)) -> TargetReport:
    (folder / "deploy").mkdir(exist_ok=True)
    (folder / "deploy" / "job.yaml").write_text(WRONG)
    extra: tuple[Path, ...] = ()
    if waiver:
        extra = (folder / "waivers.toml",)
        extra[0].write_text(waiver)
    policy = load_policy(load_profile("cu130"), today=today, extra=extra)
    return lint_target(str(folder / "deploy"), policy, Known(), frozenset(RULES))


def test_a_report_in_every_format(tmp_path: Path) -> None:
    report = AuditReport(orbit="1", reports=(judged(tmp_path),))
    text = render_reports(report)
    assert "ERROR shared-memory" in text
    assert RULES["shared-memory"].title in " ".join(text.split())
    assert "looked at 1 file, 1 workload" in text
    jsonschema.validate(json.loads(render("json", report)), json.loads(json_schema()))
    for form in ("junit", "html"):
        assert b"shared-memory" in render(form, report)


def test_sarif_names_file_and_line(tmp_path: Path) -> None:
    (run,) = json.loads(render("sarif", AuditReport(orbit="1", reports=(judged(tmp_path),))))["runs"]
    (result,) = run["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "job.yaml"
    line = next(number for number, row in enumerate(WRONG.splitlines(), 1) if "128Gi" in row)
    assert place["region"] == {"startLine": line}
    rule = run["tool"]["driver"]["rules"][result["ruleIndex"]]
    assert rule["shortDescription"]["text"] == RULES["shared-memory"].title


def test_a_finding_keeps_its_identity_when_lines_are_put_before_it(tmp_path: Path) -> None:
    before = identities(judged(tmp_path).findings)
    moved = lint_target_of(tmp_path, "# a comment\n" + WRONG)
    assert identities(moved.findings) == before
    assert moved.findings[0].subject != judged(tmp_path).findings[0].subject


def lint_target_of(folder: Path, text: str) -> TargetReport:
    path = folder / "deploy" / "job.yaml"
    path.write_text(text)
    policy = load_policy(load_profile("cu130"))
    return lint_target(str(path.parent), policy, Known(), frozenset(RULES))


def test_a_waiver(tmp_path: Path) -> None:
    report = judged(tmp_path, WAIVER)
    assert "a terabyte each (until 2026-12-31)" in report.findings[0].waiver
    assert not report.failed


@pytest.mark.parametrize("change", [("shared-memory", "image-tag"), ("job.yaml", "other.yaml")])
def test_a_waiver_of_something_else(tmp_path: Path, change: tuple[str, str]) -> None:
    assert judged(tmp_path, WAIVER.replace(*change)).failed


def test_an_expired_waiver(tmp_path: Path) -> None:
    assert judged(tmp_path, WAIVER, dt.date(2027, 1, 1)).failed


def test_rules_that_were_not_chosen_are_named(tmp_path: Path) -> None:
    judged(tmp_path)
    policy = load_policy(load_profile("cu130"))
    report = lint_target(str(tmp_path / "deploy"), policy, Known(), frozenset({"image-tag"}))
    assert report.rules == ("image-tag",)
    assert {item.what for item in report.skipped} == set(RULES) - {"image-tag"}
    assert not report.findings
