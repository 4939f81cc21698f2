"""The examples on the pages are what is rendered today, but for identity and ports, which follow from all fields."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orbit.launch.job import load_job
from orbit.launch.plan import make_plan
from orbit.launch.render import render
from orbit.launch.site.model import load_site
from tests.source import ROOT

VARIES = re.compile(r"\b[0-9a-f]{64}\b|--ports [\d,]+")


def block(page: str, start: str) -> str:
    """The code block of a page that begins with ``start``."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.MULTILINE | re.DOTALL)
    found = [text for text in blocks if text.startswith(start)]
    assert len(found) == 1
    return str(found[0])


@pytest.mark.parametrize(("page", "site"), [("launch-slurm.md", "slurm-pyxis"), ("launch-docker.md", "docker-8gpu")])
def test_the_examples_are_what_is_rendered(page: str, site: str, tmp_path: Path) -> None:
    recipe = block("launch.md", "schema = 1")
    if site == "docker-8gpu":
        recipe = re.sub(r"unfit.*\n|least_nodes.*\n", "", recipe)
        recipe = recipe.replace("nodes = 2", "nodes = 1").replace("gpus_per_node = 8", "gpus_per_node = 2")
    (tmp_path / "recipe.toml").write_text(recipe)
    (file,) = render(make_plan(load_job(tmp_path / "recipe.toml"), load_site(site)))
    assert VARIES.sub("*", block(page, "#!/bin/sh")) == VARIES.sub("*", file.text)
