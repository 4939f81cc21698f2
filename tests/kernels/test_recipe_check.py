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
[[requires]]
place = "system"
file = "net/card.h"
reason = "the card is driven from kernels"
fix = "install it"
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
        ('path = "third/part"', 'path = "third//part"', "leaves the source"),
        (f'tree = "{HEX}"\n[[s', f'tree = "{HEX}"\nunused_submodules = ["/x"]\n[[s', "leaves the source"),
        (f'tree = "{HEX}"\n[[s', f'tree = "{HEX}"\nunused_submodules = ["third/part"]\n[[s', "twice"),
        (f'tree = "{HEX}"\n[[s', f'tree = "{HEX}"\nsubdirectory = "../x"\n[[s', "subdirectory '../x' leaves"),
        ('version = "1.0"\n', "", "version"),
        ('kind = "git"', 'kind = "sdist"', "belong"),
        ('symbols = ["*launch*"]', "", "asserts nothing"),
        ("a.patch", "b.patch", "no file 'b.patch'"),
        ("upstream misses a header", " ", "has no reason"),
        ("the card is driven from kernels", " ", "net/card.h without reason or fix"),
        ('fix = "install it"', 'fix = ""', "net/card.h without reason or fix"),
        ("net/card.h", "/net/card.h", "leaves its place"),
        ('place = "system"', 'place = "host"', "place"),
        ("device_units = 1", "device_units = 1\nlinked_units = -1", "linked_units"),
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


JIT = """
mode = "jit"
[source]
kind = "wheel"
[jit]
generator = "thing/_C.so"
include = ["thing/include"]
flags = ["-std=c++{}", "{} -I{} --gpu-architecture=sm_{}"]
values = ["20", "{flags}", "{include}", "{number}"]
cache_variable = "THING_CACHE"
cache_key = ["kernel.{}"]
keyed = "name and flags"
unkeyed = "headers"
[[probes]]
name = "product"
capability = "10.0"
arch = "sm_100f"
kernel = "product_impl"
arguments = ["64"]
expect = ["UTCHMMA"]
[[probes]]
name = "ours"
capability = "9.0"
arch = "sm_90a"
source = "a.cu"
expect = ["HGMMA"]
"""


@pytest.fixture
def probed(shipped: Path) -> Path:
    folder = shipped.parent / "probes" / "thing"
    folder.mkdir(parents=True)
    (folder / "a.cu").write_text("")
    return shipped


def test_a_recipe_that_proves_run_time_compilation_is_read(probed: Path) -> None:
    (probed / "thing.toml").write_text(HEAD + JIT)
    recipe = load_recipe("thing")
    assert recipe.jit is not None
    assert [probe.arch for probe in recipe.probes] == ["sm_100f", "sm_90a"]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('mode = "jit"', 'mode = "prebuilt"', "do not fit"),
        ('mode = "jit"', 'mode = "jit"\nbeside = ["x"]\ninclude = ["nvidia/cudnn/include"]', "include"),
        ('values = ["20", ', "values = [", "3 values for 4 blanks"),
        ('cache_key = ["kernel.{}"]', "cache_key = []", "cache_key"),
        ('kernel = "product_impl"\n', "", "needs a kernel with arguments, or a source"),
        ('source = "a.cu"', 'source = "b.cu"', "no file 'b.cu'"),
        ('expect = ["UTCHMMA"]', "expect = []", "expects no instruction"),
        ('arch = "sm_100f"', 'arch = "sm_90a"', "code for sm_90a does not run on 10.0"),
    ],
)
def test_a_probe_that_cannot_prove_is_refused(probed: Path, old: str, new: str, complaint: str) -> None:
    assert old in JIT
    (probed / "thing.toml").write_text(HEAD + JIT.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        load_recipe("thing")
    assert complaint in f"{caught.value} {caught.value.fix}"


def test_what_is_put_beside_belongs_to_wheels_that_are_verified(shipped: Path) -> None:
    (shipped / "thing.toml").write_text(HEAD + 'beside = ["x"]\n[source]\nkind = "sdist"\n')
    with pytest.raises(InputError, match="beside in a recipe that is compiled"):
        load_recipe("thing")
