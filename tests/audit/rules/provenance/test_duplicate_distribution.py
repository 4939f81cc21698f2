"""duplicate-distribution: two descriptions of one project in one folder; near misses are two projects, two folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orbit.audit.installed.environment import read_environment
from orbit.audit.rules import RULES
from orbit.core.console import Silent
from tests.audit.support import judge, make_policy
from tests.writers.environment import EnvironmentWriter, write_sound_environment

RULE = "duplicate-distribution"


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return write_sound_environment(tmp_path / "e")


def test_an_older_version_left_behind(env: EnvironmentWriter) -> None:
    env.add("good", {"good/__init__.py": b"answer = 43\n"}, version="2.0", rows=["good/gone.py,,"])
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.fatal) == ("good", True)
    assert finding.evidence["good-2.0.dist-info"] == "2.0: 4 of 5 recorded files are there"


@pytest.mark.parametrize("name", ["Good-0.9-py3.12.egg-info", "good.egg-info", "good.egg-link"])
def test_older_metadata_beside_newer(env: EnvironmentWriter, name: str) -> None:
    (env.site / name).write_text("/srv/good\n")
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.evidence[name]) == ("good", "egg metadata")


def test_spelling_does_not_hide_it(env: EnvironmentWriter) -> None:
    env.add("my_dist", {})
    env.add("My-Dist", {}, version="2.0")
    assert [finding.subject for finding in judge(env.prefix, RULE)] == ["my-dist"]


def test_leftover_of_an_interrupted_removal(env: EnvironmentWriter) -> None:
    (env.site / "~ood").mkdir()
    (env.site / "~ood-1.0.dist-info").mkdir()
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.fatal, finding.evidence["entries"]) == ("~*", False, "~ood, ~ood-1.0.dist-info")


def test_two_projects_and_two_folders_are_fine(env: EnvironmentWriter) -> None:
    env.add("good-extra", {})
    (env.site / "other-1.0.egg-info").mkdir()
    (env.site / "good").joinpath("~draft").write_text("")
    assert judge(env.prefix, RULE) == []
    facts = read_environment(env.prefix, make_policy().profile, Silent())
    copy = replace(facts.dists[0], site="usr/lib/python3/dist-packages", folder="usr/lib/python3/dist-packages/good")
    assert list(RULES[RULE].check(replace(facts, dists=(*facts.dists, copy)), make_policy())) == []
