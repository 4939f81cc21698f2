"""The pipelines of ``ci/`` only call Orbit, with commands and options that exist, and their linters find nothing."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orbit.cli import build_parser
from orbit.core.proc import run
from orbit.profile.model import load_profile, profile_names
from tests.source import ROOT

yaml = pytest.importorskip("ruamel.yaml")
CI = ROOT / "ci"
GITHUB = sorted((CI / "github").glob("*.yml"))
GITLAB = CI / "gitlab" / "pipeline.yml"
PLAIN = {"git", "python3", "echo", "umask", "printf", "trap", "docker", ".ci/run"}
"""What a step may call beside ``./orbitw``: to bring it its input and to take its result away."""
VARIABLES = {"PROFILE": "cu130", "ENGINE": "docker", "TARGET": "h100", "DIGEST": "sha256:" + "0" * 64}
"""What variables of a pipeline may be; all others become ``x``."""


def load(path: Path) -> Any:
    """A YAML file as plain data, merge keys followed."""
    return yaml.YAML(typ="safe", pure=True).load(path.read_text())


def github_steps(path: Path) -> Iterator[dict[str, Any]]:
    """Every step of every job."""
    for job in load(path)["jobs"].values():
        yield from job["steps"]


def scripts(path: Path) -> list[str]:
    """The shell lines of a pipeline, continued lines joined."""
    if path == GITLAB:
        jobs = [job for name, job in load(path).items() if isinstance(job, dict) and not name.startswith(".")]
        found = [line for job in jobs for line in job.get("script", ())]
    else:
        found = [step["run"] for step in github_steps(path) if "run" in step]
    return [line for text in found for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def orbit_calls(path: Path) -> list[list[str]]:
    """The arguments of every call of Orbit."""
    calls = []
    for line in scripts(path):
        text = re.sub(r"\$\{?(\w+)\}?", lambda match: VARIABLES.get(match[1], "x"), line)
        words = shlex.split(re.split(r"\s(?:>>?|\|\|)\s", text)[0])
        if words[0] == "./orbitw":
            calls.append(words[1:])
    return calls


def test_both_systems_have_a_pipeline_and_neither_is_empty() -> None:
    assert [path.name for path in GITHUB] == ["check.yml", "nightly.yml", "release.yml"]
    assert all(orbit_calls(path) for path in (*GITHUB, GITLAB))


@pytest.mark.parametrize("path", [*GITHUB, GITLAB], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_step_calls_orbit_and_nothing_that_has_logic_of_its_own(path: Path) -> None:
    for line in scripts(path):
        first = re.sub(r"^\w+=\$\(", "", line.strip()).split()[0]
        assert first == "./orbitw" or first in PLAIN, line


@pytest.mark.parametrize("path", [*GITHUB, GITLAB], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_call_of_orbit_is_one_that_today_s_command_line_takes(path: Path) -> None:
    for arguments in orbit_calls(path):
        if arguments[0] != "test":  # the wrapper's own
            assert callable(build_parser().parse_args(arguments).run)  # an unknown option ends the process


def test_a_call_with_an_unknown_option_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(["gate", "run", "--no-such-option"])
    assert "no-such-option" in capsys.readouterr().err


def test_the_two_systems_run_the_same_commands() -> None:
    def shape(calls: list[list[str]]) -> set[tuple[str, ...]]:
        return {tuple(word for word in call if "/" not in word and not word.startswith("x")) for call in calls}

    github = shape([call for path in GITHUB for call in orbit_calls(path)])
    gitlab = shape(orbit_calls(GITLAB))
    assert {call[:2] for call in github} == {call[:2] for call in gitlab}


def matrices(node: Any) -> Iterator[dict[str, Any]]:
    """Every matrix in a pipeline."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "matrix":
                yield from value if isinstance(value, list) else [value]
            else:
                yield from matrices(value)
    elif isinstance(node, list):
        for item in node:
            yield from matrices(item)


@pytest.mark.parametrize("path", [*GITHUB, GITLAB], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_profiles_and_targets_are_those_of_the_data(path: Path) -> None:
    released = {target.name for target in load_profile("cu130").targets}
    for matrix in matrices(load(path)):
        for key, found in matrix.items():
            if key.lower() == "profile":
                assert set(found) == set(profile_names()) - {"probe"}
            if key.lower() == "target":
                assert set(found) == released


def test_actions_are_pinned_to_a_commit_and_say_which_version_it_is() -> None:
    for path in GITHUB:
        used = re.findall(r"uses: (\S+)(.*)", path.read_text())
        assert used
        for name, comment in used:
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", name), name
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), name


def test_workflows_take_no_right_they_do_not_name() -> None:
    for path in GITHUB:
        data = load(path)
        assert data["permissions"] == {}
        for job in data["jobs"].values():
            assert set(job["permissions"]) <= {"contents", "id-token"}
            assert job["timeout-minutes"]


@pytest.mark.parametrize(
    "command",
    [
        ["zizmor", "--offline", "--no-progress", *map(str, GITHUB), str(CI / "audit" / "action.yml")],
        ["check-jsonschema", "--builtin-schema", "vendor.github-workflows", *map(str, GITHUB)],
        ["check-jsonschema", "--builtin-schema", "vendor.github-actions", str(CI / "audit" / "action.yml")],
        [
            "check-jsonschema", "--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci", str(GITLAB),
        ],
    ],
    ids=["zizmor", "github-schema", "action-schema", "gitlab-schema"],
)  # fmt: skip
def test_linters_find_nothing(command: list[str]) -> None:
    program = Path(sys.executable).with_name(command[0])
    if not program.exists():
        pytest.skip(f"{command[0]} is not installed (it is in the group dev)")
    done = run([str(program), *command[1:]], doing="linting the pipelines", timeout_s=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_zizmor_objects_to_an_action_that_is_not_pinned(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("zizmor")
    if not program.exists():
        pytest.skip("zizmor is not installed (it is in the group dev)")
    bad = tmp_path / "bad.yml"
    bad.write_text(re.sub(r"actions/checkout@[0-9a-f]{40} # \S+", "actions/checkout@main", GITHUB[0].read_text()))
    done = run([str(program), "--offline", "--no-progress", str(bad)], doing="linting", timeout_s=120, check=False)
    assert done.returncode != 0


def actionlint(folder: Path, *, change: tuple[str, str] = ("", "")) -> tuple[int, str]:
    """Status and words of actionlint over the workflows, laid out as docs/ci.md says and GitHub wants them."""
    program = shutil.which("actionlint")
    if program is None:
        pytest.skip("actionlint is not on PATH (docs/ci.md says which version was run)")
    workflows = folder / ".github" / "workflows"
    workflows.mkdir(parents=True)
    (folder / ".git").mkdir()  # how it knows the root of a checkout, and with it its settings
    for path in GITHUB:
        (workflows / path.name).write_text(path.read_text().replace(*change) if change[0] else path.read_text())
    shutil.copy(CI / "github" / "actionlint.yaml", folder / ".github")
    done = run([program, "-no-color"], doing="linting the workflows", cwd=folder, timeout_s=120, check=False)
    return done.returncode, (done.stdout + done.stderr).decode()


def test_actionlint_finds_nothing(tmp_path: Path) -> None:
    assert actionlint(tmp_path) == (0, "")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (("ubuntu-24.04", "ubuntu-24.40"), "ubuntu-24.40"),
        (("matrix.profile", "matrix.profil"), "profil"),
        (('"$PROFILE"', "$PROFILE"), "SC2086"),
    ],
    ids=["runner", "expression", "shell"],
)
def test_actionlint_objects_to_a_workflow_that_is_wrong(change: tuple[str, str], word: str, tmp_path: Path) -> None:
    if word.startswith("SC") and shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not on PATH, and actionlint asks it about the shell of a step")
    status, words = actionlint(tmp_path, change=change)
    assert status == 1
    assert word in words
