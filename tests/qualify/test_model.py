"""Definitions: what is shipped loads, what contradicts itself is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orbit.core.paths import data_file
from orbit.errors import InputError
from orbit.qualify.model import load_definition
from orbit.qualify.paths import find_path

TEXT = data_file("ci", "qualify", "tiny.toml").read_text()


def test_each_shipped_definition_loads_and_requires_paths_that_exist() -> None:
    names = sorted(path.stem for path in data_file("ci", "qualify").glob("*.toml"))
    assert "tiny" in names
    for name in names:
        definition = load_definition(name)
        assert definition.name == name
        for kind, paths in definition.required.items():
            assert all(kind in find_path(path).kinds for path in paths)


def test_the_identity_is_of_the_numbers_not_of_what_is_demanded() -> None:
    definition = load_definition("tiny")
    assert msgspec.structs.replace(definition, tolerances=(), required={}).identity == definition.identity
    assert msgspec.structs.replace(definition, seed=1).identity != definition.identity


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("schema = 1", "schema = 2", "reads schema 1"),
        ("vocab = 256", "vocab = 250", "power of two"),
        ("heads = 2\n", "heads = 3\n", "heads do not divide"),
        ("layers = 2", "layers = 0", "below one"),
        ("prompts = 8", "prompts = 0", "nothing to compute"),
        ("positions = 32", "positions = 16", "longest sequence"),
        ('dtypes = ["float32", "bfloat16"]', 'dtypes = ["float16"]', "known: float32"),
        ('dtypes = ["float32", "bfloat16"]', 'dtypes = ["float32"]', "not one for each"),
        ('reason = "float32 rounds', 'reason = "" #', "no reason"),
        ("taps = 4", "taps = 4\ntabs = 3", "tabs"),
    ],
)
def test_a_definition_that_contradicts_itself_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert TEXT.count(old) >= 1
    path = tmp_path / "x.toml"
    path.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(InputError, match=said):
        load_definition(str(path))


def test_an_unknown_name_says_which_are_known() -> None:
    with pytest.raises(InputError, match=r"known: .*tiny"):
        load_definition("huge")
