"""orbit.kernels.recipe_check: what contradicts itself is refused with file, key and fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbit.errors import InputError
from orbit.kernels import recipe as recipes
from orbit.kernels.recipe import load_recipe

HEX = "0123456789abcdef0123456789abcdef01234567"
HEAD = """
schema = 1
name = "thing"
dist = "thing"
tier = "core"
group = "cuda"
memory_gib = 1
core_hours = 1
device_units = 1
artifacts = ["*.so"]
"""
GIT = f"""
[source]
kind = "git"
version = "1.0"
url = "https://example.org/thing.git"
commit = "{HEX}"
tree = "{HEX}"
[[source.submodules]]
path = "third/part"
url = "https://example.org/part.git"
commit = "{HEX}"
tree = "{HEX}"
[[features]]
name = "all of it"
reason = "half of it hangs"
symbols = ["*launch*"]
[[patches]]
file = "a.patch"
reason = "upstream misses a header"
"""


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "kernels" / "recipes"
    folder.mkdir(parents=True)
    patches = tmp_path / "kernels" / "patches" / "thing"
    patches.mkdir(parents=True)
    (patches / "a.patch").write_text("")
    monkeypatch.setattr(recipes, "data_root", lambda: tmp_path)
    return folder


def test_a_git_recipe_with_everything_is_read(shipped: Path) -> None:
    (shipped / "thing.toml").write_text(HEAD + GIT)
    recipe = load_recipe("thing")
    assert recipe.source.submodules[0].path == "third/part"
    assert recipe.patches[0].file == "a.patch"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (f'commit = "{HEX}"\n', 'commit = "main"\n', "commit = 'main'"),
        (f'tree = "{HEX}"\n', "", "tree = ''"),
        ("https://example.org/thing.git", "https://me:secret@example.org/thing.git", "url"),
        ("https://example.org/part.git", "git@example.org:part.git", "submodule third/part: url"),
        ('path = "third/part"', 'path = "../part"', "leaves the source"),
        ('version = "1.0"\n', "", "version"),
        ('kind = "git"', 'kind = "sdist"', "belong"),
        ('symbols = ["*launch*"]', "", "asserts nothing"),
        ("a.patch", "b.patch", "no file 'b.patch'"),
        ("upstream misses a header", " ", "has no reason"),
        ('tier = "core"', 'tier = "core"\nmode = "prebuilt"', "mode prebuilt takes wheel"),
        ('tier = "core"', 'tier = "core"\nmode = "cached"', "mode"),
        ('tier = "core"', 'tier = "core"\nconfig_settings = { a = "b" }', "config_settings"),
    ],
)
def test_a_contradiction_is_refused(shipped: Path, old: str, new: str, complaint: str) -> None:
    assert old in HEAD + GIT
    (shipped / "thing.toml").write_text((HEAD + GIT).replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        load_recipe("thing")
    assert complaint in f"{caught.value} {caught.value.fix}"
    assert "thing.toml" in str(caught.value)
