"""interpreter-link: links named python, pyvenv.cfg, and the first line of scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.audit.rules.integrity.interpreter_link import interpreter_of
from orbit.core.findings import Severity
from tests.audit.rules.integrity.images import HOME, judge_image
from tests.audit.support import judge
from tests.writers.environment import EnvironmentWriter, write_sound_environment

RULE = "interpreter-link"


@pytest.fixture
def env(tmp_path: Path) -> EnvironmentWriter:
    env = write_sound_environment(tmp_path / HOME)
    (env.prefix / "bin").mkdir()
    return env


def add_python(env: EnvironmentWriter) -> None:
    (env.prefix / "bin/python3.12").write_bytes(b"")
    (env.prefix / "bin/python3").symlink_to("python3.12")
    (env.prefix / "bin/python").symlink_to("python3")


def add_script(env: EnvironmentWriter, first: str, name: str = "tool") -> None:
    (env.prefix / "bin" / name).write_text(f"{first}\nprint()\n")


def test_interpreter_inside_is_fine(env: EnvironmentWriter, tmp_path: Path) -> None:
    add_python(env)
    add_script(env, f"#!{env.prefix}/bin/python")
    add_script(env, "#!/bin/sh\n'''exec' \"$(dirname -- \"$0\")/python3.12\" \"$0\" \"$@\"\n' '''", "relative")
    add_script(env, "#!/usr/bin/env python3", "by-path")
    (env.prefix / "pyvenv.cfg").write_text("home = /usr/bin\nversion_info = 3.12.1\n")
    assert judge(env.prefix, RULE) == []


@pytest.mark.parametrize(
    ("target", "severity", "words"),
    [
        ("/usr/bin/python3.12", Severity.WARNING, "borrowed from outside"),
        ("/home/ann/.pyenv/versions/3.12.1/bin/python3.12", Severity.WARNING, "borrowed from /home"),
        ("/opt/miniconda3/bin/python3.12", Severity.WARNING, "borrowed from /opt/miniconda3"),
        ("python3.13", Severity.ERROR, "not there"),
        ("python3", Severity.ERROR, "circle"),
    ],
)
def test_links(env: EnvironmentWriter, target: str, severity: Severity, words: str) -> None:
    (env.prefix / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (env.prefix / "bin/python").symlink_to("python3")
    (env.prefix / "bin/python3").symlink_to(target)
    finding = judge(env.prefix, RULE)[0]
    assert (finding.severity, words in finding.message) == (severity, True)
    assert finding.evidence["links"] == "bin/python, bin/python3"
    assert judge(env.prefix, "dangling-link") == []


def test_another_minor_version(env: EnvironmentWriter) -> None:
    (env.prefix / "bin/python").symlink_to("/usr/bin/python3.11")
    errors = [finding for finding in judge(env.prefix, RULE) if finding.fatal]
    assert [finding.message for finding in errors] == ["leads to Python 3.11, the packages are installed for 3.12"]


def test_a_second_interpreter_beside_the_right_one_is_fine(env: EnvironmentWriter) -> None:
    add_python(env)
    (env.prefix / "bin/python3.11").symlink_to("python3.12")
    assert judge(env.prefix, RULE) == []


def test_version_in_pyvenv_cfg(env: EnvironmentWriter) -> None:
    add_python(env)
    (env.prefix / "pyvenv.cfg").write_text("home = /usr/bin\nversion_info = 3.11.9.final.0\n")
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.fatal) == ("pyvenv.cfg", True)


def test_interpreter_that_is_not_in_the_image(env: EnvironmentWriter, tmp_path: Path) -> None:
    (env.prefix / "pyvenv.cfg").write_text("home = /usr/local/bin\n")
    (env.prefix / "bin/python").symlink_to("/usr/local/bin/python3.12")
    findings = judge_image(tmp_path, RULE)
    assert [finding.fatal for finding in findings] == [True, True]
    (tmp_path / "usr/local/bin").mkdir(parents=True)
    (tmp_path / "usr/local/bin/python3.12").write_bytes(b"")
    assert judge_image(tmp_path, RULE) == []


def test_scripts_of_an_environment_that_was_moved(env: EnvironmentWriter, tmp_path: Path) -> None:
    add_python(env)
    for name in ("one", "two"):
        add_script(env, "#!/home/ann/venv/bin/python", name)
    (finding,) = judge(env.prefix, RULE)
    assert (finding.subject, finding.fatal) == ("/home/ann/venv/bin/python", True)
    assert finding.evidence["scripts"] == "bin/one, bin/two"
    (finding,) = judge_image(tmp_path, RULE)
    assert "not in the image" in finding.message


def test_scripts_that_name_an_interpreter_that_is_gone(env: EnvironmentWriter) -> None:
    add_python(env)
    add_script(env, f"#!{env.prefix}/bin/python3.9")
    (finding,) = judge(env.prefix, RULE)
    assert "not there" in finding.message


@pytest.mark.parametrize(
    ("head", "path"),
    [
        (b"#!/a/python -E\n", "/a/python"),
        (b"#! /a/python\n", "/a/python"),
        (b"#!/bin/sh\n'''exec' /long/path/python \"$0\" \"$@\"\n", "/long/path/python"),
        (b"#!/bin/sh\n'''exec' \"/with space/python\" \"$0\"\n", "/with"),
        (b"#!/bin/sh\necho\n", "/bin/sh"),
        (b"#!python\n", ""),
        (b"\x7fELF", ""),
        (b"#!" + bytes(300), ""),
    ],
)
def test_first_lines(head: bytes, path: str) -> None:
    assert interpreter_of(head) == path
