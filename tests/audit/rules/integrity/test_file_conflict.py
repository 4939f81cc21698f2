"""file-conflict: who won, mixes of two wheels, two versions of one project, names that differ in case."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.core.findings import Severity
from tests.audit.support import judge
from tests.writers.environment import EnvironmentWriter, write_sound_environment

RULE = "file-conflict"


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    return write_sound_environment(tmp_path / "e")


def test_wheel_mix(env: EnvironmentWriter) -> None:
    names = [f"dsl/m{number}.py" for number in range(10)]
    env.add("dsl-base", dict.fromkeys(names, b"base") | {"other/x.py": b"1"})
    env.add("dsl-cu13", dict.fromkeys(names, b"cu13") | {"other/x.py": b"2"})
    (finding,) = judge(env.prefix, RULE)
    assert finding.evidence["on disk"] == "11 from dsl-cu13"
    assert "mix" not in finding.message
    for name in names[:3]:
        (env.site / name).write_bytes(b"base")
    (finding,) = judge(env.prefix, RULE)
    assert "wheel mix: dsl has files of both" in finding.message
    assert finding.evidence["mix in dsl"] == "3 from dsl-base, 7 from dsl-cu13"


def test_winners_of_different_size_are_told_apart(env: EnvironmentWriter) -> None:
    env.add("one", {"shared.py": b"longer content"})
    env.add("two", {"shared.py": b"short"})
    (env.site / "shared.py").write_bytes(b"longer content")
    (finding,) = judge(env.prefix, RULE)
    assert finding.evidence["on disk"] == "1 from one"
    (env.site / "shared.py").write_bytes(b"edited")
    (finding,) = judge(env.prefix, RULE)
    assert finding.evidence["on disk"] == "1 from nobody's"
    assert judge(env.prefix, "record-hash") == []


def test_two_versions_of_one_project(env: EnvironmentWriter) -> None:
    env.add("pkg", {"pkg/__init__.py": b"1"}, version="1.0")
    env.add("pkg", {"pkg/__init__.py": b"2"}, version="2.0")
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.evidence["on disk"]) == ("pkg 1.0 + pkg 2.0", "1 from pkg 2.0")
    assert "one version" in finding.fix


def test_equal_bytes_are_silent(env: EnvironmentWriter) -> None:
    env.add("one", {"shared/__init__.py": b"=", "LICENSE": b"="})
    env.add("two", {"shared/__init__.py": b"=", "LICENSE": b"="})
    assert judge(env.prefix, RULE) == []


def test_texts_are_a_warning(env: EnvironmentWriter) -> None:
    env.add("one", {"LICENSE": b"1"})
    env.add("two", {"LICENSE": b"2"})
    (finding,) = judge(env.prefix, RULE)
    assert finding.severity is Severity.WARNING


def test_names_that_differ_in_case(env: EnvironmentWriter) -> None:
    env.add("one", {"pkg/Data.txt": b"1", "pkg/data.txt": b"2", "pkg/other.txt": b"3"})
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.severity) == ("pkg", Severity.NOTE)
    env.add("two", {"Good/__init__.py": b""})
    assert {finding.subject: finding.severity for finding in judge(env.prefix, RULE)} == {
        "pkg": Severity.NOTE,
        "Good": Severity.WARNING,
    }
