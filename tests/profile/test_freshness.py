"""Freshness by the real uv on a small project that needs no network, and by a stand-in where the index would answer."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from orbit.core import tools
from orbit.core.findings import Finding
from orbit.core.paths import checkout_root
from orbit.core.proc import clean_env
from orbit.errors import InputError, MissingError
from orbit.profile.freshness import check_fresh, declared_differences, read_project
from orbit.profile.lock import read_lock
from tests.profile.locks import lock_of, package

PROJECT = """
[project]
name = "orbit"
version = "0.1.0"
requires-python = ">=3.12,<3.13"
dependencies = ["leaf"]

[project.optional-dependencies]
stack = ["leaf>=1"]

[dependency-groups]
base = ["leaf<9"]
more = [{ include-group = "base" }]

[tool.uv]
override-dependencies = ["leaf>=0.5"]

[tool.uv.sources]
leaf = { path = "leaf" }
"""
LEAF = '[project]\nname = "leaf"\nversion = "1.0"\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one local dependency, freshly locked by the real uv."""
    (tmp_path / "leaf").mkdir()
    (tmp_path / "leaf" / "pyproject.toml").write_text(LEAF)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    subprocess.run(
        [tools.uv(), "lock", "--offline"],
        cwd=tmp_path,
        env=clean_env({"UV_PYTHON": sys.executable}),
        check=True,
        capture_output=True,
    )
    return tmp_path


def check(root: Path) -> Finding | None:
    return check_fresh(root, read_lock(root / "uv.lock"), read_project(root))


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_a_fresh_lock(project: Path) -> None:
    before = (project / "uv.lock").read_bytes()
    assert check(project) is None
    assert declared_differences(read_lock(project / "uv.lock"), read_project(project)) == ()
    edit(project / "pyproject.toml", "[project]\n", "# a comment\n[project]\n")
    assert check(project) is None
    assert (project / "uv.lock").read_bytes() == before


def test_what_would_change_is_named(project: Path) -> None:
    before = (project / "uv.lock").read_bytes()
    edit(project / "leaf" / "pyproject.toml", 'version = "1.0"', 'version = "2.0"')
    finding = check(project)
    assert finding is not None
    assert (finding.rule, finding.fatal) == ("lock-stale", True)
    assert "Update leaf v1.0 -> v2.0" in finding.evidence["changes"]
    assert (project / "uv.lock").read_bytes() == before


def test_an_edit_that_moves_no_version(project: Path) -> None:
    edit(project / "pyproject.toml", 'stack = ["leaf>=1"]', "stack = []")
    finding = check(project)
    assert finding is not None
    assert finding.rule == "lock-stale"
    assert finding.evidence["pyproject"] == "extra stack: leaf -> nothing"
    assert finding.evidence["changes"] == "requirements as recorded in the lock; no version changes"


RECORDED = """
{ name = "leaf", specifier = ">=1", marker = "extra == 'stack'" }, { name = "leaf" },
{ name = "twice", specifier = "<2", marker = "os_name == 'nt'" }, { name = "twice", specifier = ">=2" },
"""


@pytest.mark.parametrize(
    ("own", "stack", "overrides", "phrases"),
    [
        ("leaf, twice >=2, twice <2", "leaf >= 1", "Leaf==2.0", ()),
        ("leaf, twice >=2, twice <2", "leaf>=1,<3", "leaf==2.0", ("extra stack: leaf>=1 -> leaf<3,>=1",)),
        ("leaf, twice >=2, twice <2", "leaf[x]>=1", "leaf==2.0", ("extra stack: leaf>=1 -> leaf[x]>=1",)),
        ("leaf, twice >=2, twice <2", "leaf>=1", "leaf==2.1", ("override: leaf==2.0 -> leaf==2.1",)),
        ("leaf, twice >=2", "leaf>=1", "leaf==2.0", ("dependencies: twice<2 or >=2 -> twice>=2",)),
        (
            "twice >=2, twice <2, new",
            "leaf>=1",
            "leaf==2.0",
            ("dependencies: leaf -> nothing", "dependencies: nothing -> new"),
        ),
    ],
)
def test_edited_requirements_are_named(own: str, stack: str, overrides: str, phrases: tuple[str, ...]) -> None:
    lock = lock_of(package("leaf", "2.0"), requires=RECORDED.replace("\n", " "), overrides={"leaf": "==2.0"})
    project = {
        "project": {"dependencies": own.split(", "), "optional-dependencies": {"stack": [stack]}},
        "tool": {"uv": {"override-dependencies": [overrides]}},
    }
    assert declared_differences(lock, project) == phrases


def test_the_real_lock_records_what_the_real_project_asks_for() -> None:
    root = checkout_root()
    assert declared_differences(read_lock(root / "uv.lock"), read_project(root)) == ()


def test_a_lock_that_uv_cannot_read(project: Path) -> None:
    edit(project / "uv.lock", '[[package]]\nname = "leaf"\n', '[[package]]\nname = "le af"\n')
    finding = check(project)
    assert finding is not None
    assert (finding.rule, "cannot read" in finding.message) == ("lock-stale", True)
    assert "TOML parse error" in finding.evidence["uv"]


def stand_in(folder: Path, offline: tuple[int, str], online: tuple[int, str]) -> Path:
    """A program that answers like uv: one way with ``--offline``, another without."""
    path = folder / "uv-stand-in"
    answer = "cat >&2 <<'END'\n{1}\nEND\nexit {0}\n"
    path.write_text(f'#!/bin/sh\nif [ "$3" = --offline ]; then\n{answer.format(*offline)}fi\n{answer.format(*online)}')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


NEEDS_INDEX = (1, "error: No solution found when resolving dependencies\nhint: the network was disabled")
NO_NETWORK = (
    2,
    "error: Failed to fetch: `leaf`\n  cause: error sending request\n  cause: Connection refused (os error 111)",
)


def test_without_network_an_edit_is_still_stale(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "uv", lambda: stand_in(project, NEEDS_INDEX, NO_NETWORK))
    edit(project / "pyproject.toml", 'dependencies = ["leaf"]', 'dependencies = ["leaf", "new>=2"]')
    finding = check(project)
    assert finding is not None
    assert finding.evidence["pyproject"] == "dependencies: nothing -> new>=2"
    assert "Connection refused" in finding.evidence["changes"]


def test_without_network_and_without_an_edit_nobody_can_tell(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "uv", lambda: stand_in(project, NEEDS_INDEX, NO_NETWORK))
    with pytest.raises(MissingError, match=r"cannot be told.*Connection refused"):
        check(project)


def test_the_index_may_say_that_all_is_well(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "uv", lambda: stand_in(project, NEEDS_INDEX, (0, "No lockfile changes detected")))
    assert check(project) is None


def test_many_changes_are_cut(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "\n".join(f"Update p{n} v1 -> v2" for n in range(30))
    monkeypatch.setattr(tools, "uv", lambda: stand_in(project, NEEDS_INDEX, (0, f"{words}\nAdd new v1")))
    finding = check(project)
    assert finding is not None
    assert finding.evidence["changes"].count(";") == 20
    assert finding.evidence["changes"].endswith("and 11 more")


def test_requirements_that_nothing_meets(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "error: No solution found when resolving dependencies\n  cause: only leaf<=1 is available"
    monkeypatch.setattr(tools, "uv", lambda: stand_in(project, NEEDS_INDEX, (1, words)))
    finding = check(project)
    assert finding is not None
    assert "nothing on the index" in finding.message
    assert "only leaf<=1" in finding.evidence["uv"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[project", "not valid TOML"),
        ('[project]\ndependencies = ["leaf >"]', "requirement 'leaf >'"),
        ('[dependency-groups]\na = [{ include-group = "a" }]', "includes itself"),
    ],
)
def test_a_broken_pyproject(project: Path, text: str, says: str) -> None:
    (project / "pyproject.toml").write_text(text)
    with pytest.raises(InputError, match=says):
        declared_differences(read_lock(project / "uv.lock"), read_project(project))


def test_no_pyproject(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_project(tmp_path)
