"""orbit launch lint, and the same through orbit audit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orbit.cli import main
from orbit.errors import ExitCode
from tests.launch.lint.sound import DIGEST, JOB, SOUND, changed

WRONG = changed(JOB, ("sizeLimit: 16Gi", "sizeLimit: 128Gi"))
RECIPE = f"""\
schema = 1
[launch]
name = "demo"
image = "registry.example.org/team/orbit@{DIGEST}"
command = ["python3.12", "/data/train.py"]
gpus_per_node = 1
scratch_gib = 1
"""

COMMANDS = (["launch", "lint"], ["audit"])


@pytest.mark.parametrize("command", COMMANDS, ids=["launch-lint", "audit"])
def test_a_file_with_an_error(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(WRONG)
    assert main([*command, str(path), "--json"]) == ExitCode.FINDINGS
    out = capsys.readouterr()
    (report,) = json.loads(out.out)["reports"]
    assert report["kind"] == "manifests"
    assert [finding["rule"] for finding in report["findings"]] == ["shared-memory"]
    assert "ERROR shared-memory" in out.err
    assert main([*command, str(path), "--fail-on", "never"]) == ExitCode.OK
    assert main([*command, str(path), "--skip", "shared-memory"]) == ExitCode.OK
    assert main([*command, str(path), "--rule", "image-tag"]) == ExitCode.OK


@pytest.mark.parametrize("command", COMMANDS, ids=["launch-lint", "audit"])
def test_a_folder(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in SOUND.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "README.md").write_text("docker run x\n")
    assert main([*command, str(tmp_path)]) == ExitCode.OK
    assert f"looked at {len(SOUND)} files" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS, ids=["launch-lint", "audit"])
@pytest.mark.parametrize("form", ["sarif", "junit", "html"])
def test_formats(command: list[str], form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(WRONG)
    assert main([*command, str(path), "--format", form]) == ExitCode.FINDINGS
    assert "shared-memory" in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS, ids=["launch-lint", "audit"])
def test_the_version_of_ray_is_said(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(SOUND["rayjob.yaml"])
    assert main([*command, str(path), "--ray-version", "2.46.0"]) == ExitCode.FINDINGS
    assert "ray-version" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS, ids=["launch-lint", "audit"])
def test_bad_input(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, str(tmp_path)]) == ExitCode.USAGE
    assert main([*command, str(tmp_path / "none.yaml")]) == ExitCode.USAGE
    assert main([*command, str(tmp_path), "--rule", "no-such-rule"]) == ExitCode.USAGE
    assert "Traceback" not in capsys.readouterr().err


def test_audit_takes_manifests_beside_other_targets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "b.yaml", tmp_path / "a.yaml"
    first.write_text(WRONG)
    second.write_text(JOB)
    assert main(["audit", str(first), str(second), str(tmp_path / "none.whl"), "--json"][:-1]) == ExitCode.USAGE
    capsys.readouterr()
    assert main(["audit", str(first), str(second), "--json"]) == ExitCode.FINDINGS
    reports = json.loads(capsys.readouterr().out)["reports"]
    assert [report["target"] for report in reports] == [str(first), str(second)]


def test_audit_compares_two_versions_of_a_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("a", JOB), ("b", WRONG)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "job.yaml").write_text(text)
    assert main(["audit", "diff", str(tmp_path / "a"), str(tmp_path / "b")]) == ExitCode.FINDINGS
    assert "shared-memory" in capsys.readouterr().err


def test_explain_lists_and_explains(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "explain"]) == ExitCode.OK
    assert "gpu-count" in capsys.readouterr().out
    assert main(["audit", "explain", "gpu-count"]) == ExitCode.OK
    assert "How to fix" in capsys.readouterr().out


@pytest.mark.parametrize("site", ["docker-1gpu", "kubernetes", "kubernetes-kuberay", "slurm-pyxis", "htcondor-docker"])
def test_a_recipe_on_a_site(site: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE)
    assert main(["launch", "lint", str(recipe), "--site", site, "--fail-on", "warning", "--json"]) == ExitCode.OK
    (report,) = json.loads(capsys.readouterr().out)["reports"]
    assert report["facts"]["started_containers"] >= 1
    assert report["target"].endswith(f"on {site}")


def test_two_recipes_for_a_site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "lint", "a.toml", "b.toml", "--site", "kubernetes"]) == ExitCode.USAGE
    assert "name one recipe" in capsys.readouterr().err


def test_a_waiver(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.yaml").write_text(WRONG)
    waivers = tmp_path / "waivers.toml"
    waivers.write_text(
        'schema = 1\n[[waivers]]\nrule = "shared-memory"\nsubject = "*"\n'
        'reason = "the nodes of this pool have a terabyte each"\nexpires = 2999-01-01\n'
    )
    assert main(["launch", "lint", str(tmp_path / "job.yaml"), "--expectations", str(waivers)]) == ExitCode.OK
    assert "waived: shared-memory" in capsys.readouterr().err
