"""Site files: found by name or path; a wrong key is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.errors import InputError
from orbit.launch.site.model import load_site

GOOD = """
schema = 1
name = "here"
scheduler = "docker"
[nodes]
gpus = 1
cpus = 8
memory_gib = 64
[image]
runtime = "docker"
"""


def test_a_file_is_read_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "here.toml"
    path.write_text(GOOD, encoding="utf-8")
    found = load_site(str(path))
    assert (found.name, found.nodes.most, found.storage.mounts) == ("here", 1, ())


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("schema = 1", "schema = 9", "schema = 9"),
        ("gpus = 1", "gpuz = 1", "gpuz"),
        ('"docker"', '"dokcer"', "dokcer"),
        ("[image]", "[imagine]", "imagine"),
    ],
)
def test_a_wrong_file_is_refused_by_its_name(tmp_path: Path, before: str, after: str, said: str) -> None:
    path = tmp_path / "here.toml"
    path.write_text(GOOD.replace(before, after, 1), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_site(str(path))
    assert str(path) in str(caught.value)
    assert said in str(caught.value)


def test_a_site_nobody_ships_is_refused() -> None:
    with pytest.raises(InputError, match="no such site"):
        load_site("nowhere")
