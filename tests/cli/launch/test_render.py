"""``orbit launch render``: what it refuses."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from orbit.cli import main

RECIPE = f"""
schema = 1
[launch]
name = "demo"
image = "registry.example.org/team/orbit@sha256:{"ab" * 32}"
command = ["python3.12", "/data/train.py"]
"""
SITE = """
schema = 1
name = "here"
scheduler = "docker"
nodes = { gpus = 0, cpus = 2, memory_gib = 32 }
image = { runtime = "docker" }
"""


@pytest.fixture
def paths(tmp_path: Path) -> tuple[str, str]:
    """A recipe and a site."""
    recipe, site = tmp_path / "recipe.toml", tmp_path / "site.toml"
    recipe.write_text(RECIPE)
    site.write_text(SITE)
    return str(recipe), str(site)


def test_a_form_the_scheduler_does_not_have_is_refused(
    paths: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, site = paths
    assert main(["launch", "render", recipe, "--site", site, "--form", "rayjob"]) == 2
    assert "scheduler docker has no form 'rayjob'" in capsys.readouterr().err


def test_a_site_that_is_not_there_is_named(paths: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "render", paths[0], "--site", "./nowhere.toml"]) == 2
    assert "./nowhere.toml: no such site" in capsys.readouterr().err


def test_one_file_is_printed_and_several_are_written(
    paths: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, site = paths
    assert main(["launch", "render", recipe, "--site", site]) == 0
    first = capsys.readouterr().out
    assert first.startswith("#!/bin/sh\n# Job demo")
    assert main(["launch", "render", recipe, "--site", site]) == 0
    assert capsys.readouterr().out == first
    assert main(["launch", "render", recipe, "--site", site, "--form", "compose", "--out", str(tmp_path / "out")]) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["compose.yaml", "demo.sh"]
    assert os.access(tmp_path / "out/demo.sh", os.X_OK)
    capsys.readouterr()
    assert main(["launch", "render", recipe, "--site", site, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["name"], [file["text"] for file in said["files"]]) == ("demo", [first])
