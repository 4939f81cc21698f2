"""orbit.kernels.sources.model: what a source is, and which parts of it make another wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orbit.errors import InputError
from orbit.kernels.recipe import Submodule
from orbit.kernels.sources.model import PatchFile, Source, git_identity, read_patch, resolve_source
from orbit.profile.lock import Lock, parse_lock
from tests.kernels.sources.repos import URL, recipe_of

WHEEL = {"url": "https://index.invalid/kernel-1-cp312-cp312-linux_x86_64.whl", "hash": "sha256:" + "c" * 64}


def lock_of(tmp_path: Path, **artifacts: Any) -> Lock:
    lines = ['version = 1\nrequires-python = ">=3.12"\n[[package]]\nname = "orbit"\nversion = "1"']
    lines += ['source = { editable = "." }\n[[package]]\nname = "kernel"\nversion = "1"']
    lines += ['source = { registry = "https://index.invalid/simple" }']
    if sdist := artifacts.get("sdist"):
        lines.append(f'sdist = {{ url = "{sdist["url"]}", hash = "{sdist["hash"]}" }}')
    if wheel := artifacts.get("wheel"):
        lines.append(f'wheels = [{{ url = "{wheel["url"]}", hash = "{wheel["hash"]}" }}]')
    return parse_lock("\n".join(lines).encode(), tmp_path / "uv.lock")


def git_source(**changes: Any) -> Source:
    said: dict[str, Any] = {
        "url": URL, "commit": "1" * 40, "tree": "2" * 40, "subdirectory": "python",
        "submodules": [{"path": "third/x", "url": "https://forge.invalid/o/x", "commit": "3" * 40, "tree": "4" * 40}],
    }  # fmt: skip
    return resolve_source(recipe_of(**{**said, **changes}), parse_lock(LOCK, Path("uv.lock")), Path())


LOCK = (
    b'version = 1\nrequires-python = ">=3.12"\n'
    b'[[package]]\nname = "orbit"\nversion = "1"\nsource = { editable = "." }\n'
)


def test_the_same_tree_from_another_place_is_the_same_source() -> None:
    base = git_source()
    assert git_source(url="https://mirror.invalid/kernel", commit="9" * 40).identity == base.identity
    sub = {"path": "third/x", "url": "https://mirror.invalid/x", "commit": "8" * 40, "tree": "4" * 40}
    assert git_source(submodules=[sub]).identity == base.identity
    others = [
        git_source(tree="5" * 40),
        git_source(subdirectory=""),
        git_source(submodules=[]),
        git_source(submodules=[{**sub, "tree": "6" * 40}]),
        git_source(submodules=[{**sub, "path": "third/y"}]),
    ]
    assert len({source.identity for source in (base, *others)}) == 6


def test_pins_are_the_repositories_outer_ones_first() -> None:
    subs = tuple(
        Submodule(path=path, url=f"https://forge.invalid/{path}", commit="1" * 40, tree="2" * 40)
        for path in ("b/in/deep", "a-b", "b/in", "a")
    )
    source = Source(kind="git", version="1", sha256=git_identity("2" * 40, "", subs), url=URL, submodules=subs)
    assert [pin.path for pin in source.pins] == ["", "a", "a-b", "b/in", "b/in/deep"]
    assert Source(kind="sdist", version="1", sha256="0").pins == ()


def test_patches_and_their_order_make_another_source(tmp_path: Path) -> None:
    plain = Source(kind="sdist", version="1", sha256="a" * 64)
    assert plain.identity == "a" * 64
    one, two = PatchFile(file="1", sha256="b" * 64), PatchFile(file="2", sha256="c" * 64)
    sources = [
        Source(kind="sdist", version="1", sha256="a" * 64, patches=patches)
        for patches in ((one,), (one, two), (two, one))
    ]
    assert len({plain.identity, *(source.identity for source in sources)}) == 4


def test_patches_are_read_as_they_were_planned(tmp_path: Path) -> None:
    folder = tmp_path / "kernels" / "patches" / "kernel"
    folder.mkdir(parents=True)
    (folder / "a.patch").write_bytes(b"x")
    recipe = recipe_of(url=URL, commit="1" * 40, tree="2" * 40, patches=["a.patch"])
    source = resolve_source(recipe, parse_lock(LOCK, tmp_path / "uv.lock"), tmp_path)
    assert read_patch("kernel", source.patches[0], tmp_path) == b"x"
    (folder / "a.patch").write_bytes(b"y")
    with pytest.raises(InputError, match="changed since"):
        read_patch("kernel", source.patches[0], tmp_path)
    (folder / "a.patch").unlink()
    with pytest.raises(InputError, match="no such patch"):
        resolve_source(recipe, parse_lock(LOCK, tmp_path / "uv.lock"), tmp_path)


def test_sdists_and_wheels_are_those_of_the_lock(tmp_path: Path) -> None:
    sdist = {"url": "https://index.invalid/kernel-1.tar.gz", "hash": "sha256:" + "b" * 64}
    lock = lock_of(tmp_path, sdist=sdist, wheel=WHEEL)
    wheel = resolve_source(recipe_of("wheel", mode="prebuilt"), lock, tmp_path)
    assert (wheel.kind, wheel.file, wheel.sha256) == ("wheel", WHEEL["url"].rpartition("/")[2], "c" * 64)
    assert resolve_source(recipe_of("sdist"), lock, tmp_path).identity == "b" * 64
    with pytest.raises(InputError, match="no sdist with"):
        resolve_source(recipe_of("sdist"), lock_of(tmp_path, wheel=WHEEL), tmp_path)
    with pytest.raises(InputError, match="no wheel for this platform"):
        resolve_source(recipe_of("wheel", mode="jit"), lock_of(tmp_path, sdist=sdist), tmp_path)
    (tmp_path / "kernels" / "patches" / "kernel").mkdir(parents=True)
    (tmp_path / "kernels" / "patches" / "kernel" / "a").write_bytes(b"x")
    with pytest.raises(InputError, match="patches of a wheel"):
        resolve_source(recipe_of("wheel", mode="jit", patches=["a"]), lock, tmp_path)
