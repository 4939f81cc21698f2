"""The table [launch]: what is refused, and in which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.errors import InputError
from orbit.launch.job import Job, load_job, problems

DIGEST = "sha256:" + "ab" * 32
GOOD = f"""
schema = 1
[launch]
name = "demo"
image = "registry.example.org/team/orbit@{DIGEST}"
command = ["python3.12", "train.py"]
nodes = 2
gpus_per_node = 8
[train]
steps = 3
"""


def recipe(folder: Path, text: str) -> Path:
    """A recipe file with ``text``."""
    path = folder / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return path


def job(**changed: object) -> Job:
    """A sound job, with something changed."""
    return Job(**{"name": "demo", "image": DIGEST, "command": ("true",)} | changed)  # type: ignore[arg-type]


def test_a_recipe_is_read_and_its_other_tables_are_left_alone(tmp_path: Path) -> None:
    found = load_job(recipe(tmp_path, GOOD))
    assert (found.gpus, found.digest, found.shm_gib) == (16, DIGEST, 16)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("schema = 1", "schema = 2", "schema = 2"),
        ("[launch]", "[lunch]", "no table [launch]"),
        ("nodes = 2", "nodez = 2", "nodez"),
        ("nodes = 2", "nodes = 0", "nodes"),
        ("schema = 1", "schema = ", "not valid TOML"),
    ],
)
def test_a_wrong_recipe_is_refused_with_file_and_key(tmp_path: Path, before: str, after: str, said: str) -> None:
    path = recipe(tmp_path, GOOD.replace(before, after, 1))
    with pytest.raises(InputError) as caught:
        load_job(path)
    assert str(path) in str(caught.value)
    assert said in str(caught.value)


def test_a_missing_recipe_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such recipe"):
        load_job(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": "Demo"}, "name = 'Demo'"),
        ({"name": "a" * 41}, "name = "),
        ({"image": "team/orbit:latest"}, "not a digest"),
        ({"image": "team/orbit@sha256:12"}, "not a digest"),
        ({"command": ()}, "command is empty"),
        ({"command": ("python", "")}, "command is empty"),
        ({"gpus_per_node": 4, "parallel": {"tensor": 3}}, "does not divide"),
        ({"nodes": 2, "gpus_per_node": 4, "parallel": {"tensor": 8}}, "parallel.tensor = 8"),
        ({"least_nodes": 1}, "least_nodes without"),
        ({"unfit": "leave-out", "nodes": 2, "least_nodes": 3}, "least_nodes = 3"),
        ({"ray": False, "nodes": 2}, "ray = false"),
        ({"folder": "data"}, "folder = 'data' is not absolute"),
        ({"environment": {"A-B": "x"}}, "'A-B' is no name"),
        ({"secrets": ("A B",)}, "'A B' is no name"),
        ({"secrets": ("KEY",), "environment": {"KEY": "x"}}, "KEY is in environment and in secrets"),
    ],
)
def test_each_contradiction_is_told_with_what_to_do(changed: dict[str, object], said: str) -> None:
    from orbit.core.records import convert

    plain = {"name": "demo", "image": DIGEST, "command": ["true"]} | changed
    found = problems(convert(plain, Job, "here"))
    assert [what for what, _ in found if said in what], found
    assert all(fix for _, fix in found)


def test_a_sound_job_has_no_problem() -> None:
    assert problems(job()) == []
