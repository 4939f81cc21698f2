"""editable: checkouts that are gone, outside, others than said, or shadowed by a copy; a plain wheel is silent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orbit.audit.installed.environment import read_environment
from orbit.audit.rules import RULES
from orbit.core.console import Silent
from orbit.core.findings import Finding, Severity
from tests.audit.support import judge, make_policy
from tests.writers.environment import EnvironmentWriter, write_sound_environment

RULE = "editable"


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return write_sound_environment(tmp_path / "e")


def add_editable(env: EnvironmentWriter, checkout: Path | str, **files: str) -> None:
    info = f'{{"url": "file://{checkout}", "dir_info": {{"editable": true}}}}'
    content = {"tool-1.0.dist-info/direct_url.json": info, "tool-1.0.dist-info/top_level.txt": "tool\n"}
    content |= {name.replace("__DOT__", "."): text for name, text in files.items()}
    env.add("tool", {name: text.encode() for name, text in content.items()})


def one(findings: list[Finding]) -> tuple[str, Severity, str]:
    (finding,) = findings
    return finding.subject, finding.severity, finding.message


def test_checkout_that_is_gone(env: EnvironmentWriter, tmp_path: Path) -> None:
    add_editable(env, tmp_path / "gone", _tool__DOT__pth=f"{tmp_path}/gone/src\n")
    subject, severity, message = one(judge(env.prefix, RULE))
    assert (subject, severity) == ("tool", Severity.ERROR)
    assert "not there" in message


def test_checkout_outside(env: EnvironmentWriter, tmp_path: Path) -> None:
    (tmp_path / "checkout/src").mkdir(parents=True)
    add_editable(env, tmp_path / "checkout", _tool__DOT__pth=f"{tmp_path}/checkout/src\n")
    subject, severity, message = one(judge(env.prefix, RULE))
    assert (subject, severity) == ("tool", Severity.WARNING)
    assert "outside" in message


def test_checkout_inside_is_still_not_recorded(env: EnvironmentWriter) -> None:
    (env.prefix / "src/tool").mkdir(parents=True)
    add_editable(env, env.prefix / "src")
    assert one(judge(env.prefix, RULE))[1:] == (
        Severity.WARNING, "imported from a checkout: no RECORD says what its files should be",
    )  # fmt: skip


def test_another_checkout_than_the_one_installed(env: EnvironmentWriter, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "tool").mkdir(parents=True)
    finder = f"MAPPING = {{'tool': '{tmp_path}/two/tool'}}\n"
    add_editable(env, tmp_path / "one", __editable___tool_1_0_finder__DOT__py=finder)
    messages = [finding.message for finding in judge(env.prefix, RULE) if finding.fatal]
    assert messages == [f"installed from {tmp_path}/one, but imported from another checkout"]


def test_a_copy_in_site_packages_is_imported_instead(env: EnvironmentWriter, tmp_path: Path) -> None:
    (tmp_path / "checkout").mkdir()
    add_editable(env, tmp_path / "checkout")
    env.add("old-tool", {"tool/__init__.py": b""})
    (finding,) = [finding for finding in judge(env.prefix, RULE) if finding.fatal]
    assert finding.evidence == {"copies": "tool/__init__.py", "owners": "old-tool"}


def test_a_build_that_keeps_part_of_the_package_in_site_packages_is_no_copy(
    env: EnvironmentWriter, tmp_path: Path
) -> None:
    (tmp_path / "checkout").mkdir()
    add_editable(env, tmp_path / "checkout", **{"tool/__init____DOT__py": "", "tool/_c__DOT__so": "x"})
    assert [finding for finding in judge(env.prefix, RULE) if finding.fatal] == []


def test_egg_link(env: EnvironmentWriter, tmp_path: Path) -> None:
    (env.site / "old.egg-link").write_text(f"{tmp_path}/gone\n.")
    assert one(judge(env.prefix, RULE))[:2] == ("old", Severity.ERROR)


def test_wheels_and_folders_that_were_built_once_are_silent(env: EnvironmentWriter) -> None:
    env.add("built", {"built-1.0.dist-info/direct_url.json": b'{"url": "file:///home/ann/built", "dir_info": {}}'})
    env.add("editables", {"editables/__init__.py": b"", "editables/__editable__.py": b"", "x.pth": b"x\n"})
    assert judge(env.prefix, RULE) == []


def test_in_an_image_a_path_is_looked_for_in_the_image(env: EnvironmentWriter, tmp_path: Path) -> None:
    (tmp_path / "checkout").mkdir()
    add_editable(env, tmp_path / "checkout")
    facts = read_environment(env.prefix, make_policy().profile, Silent())
    rooted = replace(facts, kind="image", tree=replace(facts.tree, rooted=True))
    findings = list(RULES[RULE].check(rooted, make_policy()))
    assert one(findings)[1] is Severity.ERROR
