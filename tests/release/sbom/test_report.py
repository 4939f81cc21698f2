"""The list of licences."""

from __future__ import annotations

from pathlib import Path

from orbit.release.sbom.report import DENIED, licence_report, render_licences
from tests.release.sbom.material import Files, dist, make, taken


def denied(files: Files) -> None:
    files |= dist("odd-one", "0.1", {"odd.py": b""}, "License-Expression: AGPL-3.0-only")


def test_denied_and_unknown_come_first_and_strict_makes_them_findings(tmp_path: Path) -> None:
    inventory = taken(make(tmp_path / "image", denied))
    report = licence_report(inventory, strict=True)
    assert [row.group for row in report.rows][:2] == [DENIED, "unknown"]
    assert report.rows[0].name == "odd-one"
    found = [(finding.rule, finding.subject) for finding in report.findings]
    assert found[0] == ("license-denied", "odd-one 0.1")
    assert ("license-unknown", "libbar2 2.0-1") in found
    assert ("license-text", "libbar2 2.0-1") in found
    assert licence_report(inventory, strict=False).findings == ()


def test_everything_with_a_licence_of_its_own_is_in_one_group(tmp_path: Path) -> None:
    inventory = taken(make(tmp_path / "image"))
    report = licence_report(inventory, strict=False)
    counts = inventory.counts
    expected = sum(counts[kind] for kind in ("python", "vendored-python", "orbit", "interpreter", "debian"))
    assert sum(group.components for group in report.groups) == len(report.rows) == expected
    text = render_licences(report)
    for row in report.rows:
        assert f"  {row.name} {row.version} [{row.kind}]: " in text
    assert "not in the image: COPYING" in text


def test_a_licence_in_no_group_is_unknown_by_name(tmp_path: Path) -> None:
    def change(files: Files) -> None:
        files |= dist("odd-one", "0.1", {"odd.py": b""}, "License-Expression: MIT AND LicenseRef-Odd")

    report = licence_report(taken(make(tmp_path / "image", change)), strict=False)
    (odd,) = [row for row in report.rows if row.name == "odd-one"]
    assert (odd.group, odd.unknown) == ("unknown", "in no group: LicenseRef-Odd")
