"""orbit.kernels.sources: from a recipe to a complete source, whatever its kind, with ``ORBIT_SOURCES`` alone."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from orbit.core.console import Silent
from orbit.core.files import tree_hash
from orbit.core.store import Store
from orbit.errors import CheckFailed, InputError, MissingError
from orbit.kernels.recipe import Recipe
from orbit.kernels.sources import obtain, resolve_source, unpack
from orbit.profile.lock import Lock
from tests.kernels.sources.repos import blob as new_blob
from tests.kernels.sources.repos import (
    clone,
    commit_all,
    git,
    git_recipe,
    locked,
    needs_git,
    pin_of,
    raw_commit,
    recipe_of,
    sdist_of,
    tree_of,
    write,
)

PATCH = b"--- a/setup.py\n+++ b/setup.py\n@@ -1 +1 @@\n-one\n+two\n"


def patched(root: Path, data: bytes = PATCH) -> None:
    folder = root / "kernels" / "patches" / "kernel"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a.patch").write_bytes(data)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout, with an empty folder ``sources`` beside it as ``ORBIT_SOURCES``."""
    (tmp_path / "root").mkdir()
    (tmp_path / "sources").mkdir()
    monkeypatch.setenv("ORBIT_SOURCES", str(tmp_path / "sources"))
    return tmp_path / "root"


def laid_out(recipe: Recipe, root: Path, store: Store, lock: Lock | None = None) -> Path:
    source = resolve_source(recipe, lock or locked(root), root)
    return unpack(obtain(recipe, source, store, root, Silent()), root.parent / "src")


def test_an_sdist_patched(root: Path, store: Store) -> None:
    data = sdist_of({"setup.py": b"one\n", "csrc/a.cu": b"x"})
    (root.parent / "sources" / "kernel-1.tar.gz").write_bytes(data)
    patched(root)
    folder = laid_out(
        recipe_of("sdist", patches=["a.patch"], files=["csrc/*.cu"]), root, store, locked(root, sdist=data)
    )
    assert (folder / "setup.py").read_bytes() == b"two\n"
    assert (folder / "setup.py").stat().st_mtime == 315532800


def test_a_hollow_sdist_is_refused(root: Path, store: Store) -> None:
    data = sdist_of({"setup.py": b"one\n"})
    (root.parent / "sources" / "kernel-1.tar.gz").write_bytes(data)
    with pytest.raises(InputError, match="kernel 1: the source is hollow"):
        laid_out(recipe_of("sdist", files=["csrc/*.cu"]), root, store, locked(root, sdist=data))


def test_a_patch_that_does_not_fit_ends_it(root: Path, store: Store) -> None:
    data = sdist_of({"setup.py": b"two\n"})
    (root.parent / "sources" / "kernel-1.tar.gz").write_bytes(data)
    patched(root)
    with pytest.raises(CheckFailed, match=r"kernels/patches/kernel/a\.patch does not fit: setup\.py, hunk 1") as caught:
        laid_out(recipe_of("sdist", patches=["a.patch"]), root, store, locked(root, sdist=data))
    assert "applied already" in caught.value.fix


def test_a_wheel_is_laid_out_as_the_file_it_is(root: Path, store: Store) -> None:
    (root.parent / "sources" / "kernel-1-py3-none-any.whl").write_bytes(b"wheel")
    folder = laid_out(recipe_of("wheel", mode="prebuilt"), root, store, locked(root, wheel=b"wheel"))
    assert [(path.name, path.read_bytes()) for path in folder.iterdir()] == [("kernel-1-py3-none-any.whl", b"wheel")]


def test_files_of_the_lock_that_cannot_be_had(root: Path, store: Store) -> None:
    recipe, lock = recipe_of("sdist"), locked(root, sdist=b"right")
    (root.parent / "sources" / "kernel-1.tar.gz").write_bytes(b"wrong")
    with pytest.raises(InputError, match=r"kernel-1\.tar\.gz: sha256 is .*, the lock says"):
        laid_out(recipe, root, store, lock)
    (root.parent / "sources" / "kernel-1.tar.gz").unlink()
    with pytest.raises(MissingError, match="cannot be fetched") as caught:
        laid_out(recipe, root, store, lock)
    digest = hashlib.sha256(b"right").hexdigest()
    assert "curl -fLo kernel-1.tar.gz https://index.invalid/kernel-1.tar.gz" in caught.value.fix
    assert digest in caught.value.fix
    assert "ORBIT_SOURCES" in caught.value.fix
    assert caught.value.code == 3


def test_a_local_folder_is_copied_as_planned(root: Path, store: Store) -> None:
    folder = root / "kernels" / "src" / "kernel"
    write(folder, {"a.cu": b"1", "run.sh": b"2", "link": b"->a.cu", "__pycache__/x.pyc": b"3"})
    recipe = recipe_of("local", folder="kernel", version="1")
    source = resolve_source(recipe, locked(root), root)
    out = unpack(obtain(recipe, source, store, root, Silent()), root.parent / "src")
    assert tree_hash(out) == source.sha256 == source.identity
    assert not (out / "__pycache__").exists()
    assert (out / "link").is_symlink()
    (folder / "a.cu").write_bytes(b"changed")
    with pytest.raises(InputError, match="changed since the plan"):
        unpack(obtain(recipe, source, store, root, Silent()), root.parent / "src2")


def repository(root: Path, files: dict[str, bytes], name: str = "kernel") -> Path:
    folder = root.parent / "sources" / name
    clone(folder, files)
    return folder


@needs_git
def test_a_commit_patched_with_a_project_inside(root: Path, store: Store) -> None:
    repo = repository(root, {"setup.py": b"one\n", "python/pyproject.toml": b"x", "csrc/a.cu": b"y"})
    recipe = git_recipe(repo, subdirectory="python", patches=["a.patch"], files=["csrc/*.cu"])
    patched(root)
    project = laid_out(recipe, root, store)
    assert project == root.parent / "src" / "python"
    assert (project.parent / "setup.py").read_bytes() == b"two\n"
    assert [path.name for path in project.parent.rglob(".git*")] == []
    assert {path.lstat().st_mtime for path in project.parent.rglob("*")} == {315532800}


@needs_git
def test_two_layouts_are_equal_and_the_umask_does_not_matter(root: Path, store: Store) -> None:
    repo = repository(root, {"setup.py": b"1", "d/run.sh": b"2", "link": b"->d/run.sh"})
    recipe = git_recipe(repo)
    got = obtain(recipe, resolve_source(recipe, locked(root), root), store, root, Silent())
    before = os.umask(0o077)
    try:
        one = unpack(got, root.parent / "one")
    finally:
        os.umask(before)
    two = unpack(got, root.parent / "two")
    shape = [
        sorted((str(p.relative_to(f)), p.lstat().st_mode, p.lstat().st_mtime) for p in f.rglob("*")) for f in (one, two)
    ]
    assert shape[0] == shape[1]
    assert tree_hash(one) == tree_hash(two)


@needs_git
def test_a_link_out_of_the_source_is_refused(root: Path, store: Store) -> None:
    repo = repository(root, {"setup.py": b"1", "d/link": b"->../../../etc/passwd"})
    with pytest.raises(InputError, match=r"d/link links to \.\./\.\./\.\./etc/passwd, outside"):
        laid_out(git_recipe(repo), root, store)


@needs_git
def test_a_subdirectory_that_is_not_there(root: Path, store: Store) -> None:
    repo = repository(root, {"setup.py": b"1"})
    with pytest.raises(InputError, match="no folder python"):
        laid_out(git_recipe(repo, subdirectory="python"), root, store)


@pytest.fixture
def family(root: Path) -> dict[str, Any]:
    """A repository with a submodule that has a submodule; each in ``ORBIT_SOURCES`` under its own name."""
    grand = repository(root, {"g.h": b"grand"}, "grand")
    child = repository(root, {"c.h": b"child"}, "child")
    git(child, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(grand), "deep/grand")
    commit_all(child)
    repo = repository(root, {"setup.py": b"one\n"})
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(child), "third/child")
    commit_all(repo)
    pins = {
        "third/child": pin_of(child, "https://forge.invalid/o/child", "third/child"),
        "third/child/deep/grand": pin_of(grand, "https://forge.invalid/o/grand", "third/child/deep/grand"),
    }
    subs = {path: {"path": path, "url": p.url, "commit": p.commit, "tree": p.tree} for path, p in pins.items()}
    return {"repo": repo, "subs": subs, "grand": grand}


@needs_git
def test_submodules_are_laid_out_where_they_belong(family: dict[str, Any], root: Path, store: Store) -> None:
    recipe = git_recipe(family["repo"], submodules=list(family["subs"].values())[::-1])
    folder = laid_out(recipe, root, store)
    assert (folder / "third" / "child" / "c.h").read_bytes() == b"child"
    assert (folder / "third" / "child" / "deep" / "grand" / "g.h").read_bytes() == b"grand"


@needs_git
def test_unused_submodules_stay_empty(family: dict[str, Any], root: Path, store: Store) -> None:
    child = family["subs"]["third/child"]
    recipe = git_recipe(family["repo"], submodules=[child], unused_submodules=["third/child/deep/grand"])
    folder = laid_out(recipe, root, store)
    assert list((folder / "third" / "child" / "deep" / "grand").iterdir()) == []
    for path in (folder / "setup.py", folder / "third" / "child" / "c.h"):
        assert path.is_file()


@needs_git
def test_submodules_that_recipe_and_source_see_differently(family: dict[str, Any], root: Path, store: Store) -> None:
    child, grand = family["subs"].values()
    with pytest.raises(InputError, match=r"submodule third/child/deep/grand \(commit .*that the recipe does not name"):
        laid_out(git_recipe(family["repo"], submodules=[child]), root, store)
    write(family["grand"], {"g.h": b"newer"})
    newer = commit_all(family["grand"])
    moved = {**grand, "commit": newer, "tree": tree_of(family["grand"])}
    with pytest.raises(InputError, match=f"is pinned to {newer}, the source asks for {grand['commit']}"):
        laid_out(git_recipe(family["repo"], submodules=[child, moved]), root, store)
    with pytest.raises(InputError, match="has no submodule third/other") as caught:
        laid_out(git_recipe(family["repo"], submodules=[child, grand], unused_submodules=["third/other"]), root, store)
    assert "third/child, third/child/deep/grand" in caught.value.fix


@needs_git
def test_a_submodule_nobody_has_is_named(family: dict[str, Any], root: Path, store: Store) -> None:
    child, grand = family["subs"].values()
    family["grand"].rename(root.parent / "away")
    with pytest.raises(MissingError, match=f"commit {grand['commit']} of https://forge.invalid/o/grand") as caught:
        laid_out(git_recipe(family["repo"], submodules=[child, grand]), root, store)
    assert f"grand-{grand['commit']}.bundle" in caught.value.fix


@needs_git
def test_a_submodule_with_an_evil_path_is_no_path(root: Path, store: Store) -> None:
    """CVE-2018-11235 and its kin: what .gitmodules says is never read; the tree's own names are."""
    repo = repository(root, {"setup.py": b"1"})
    modules = new_blob(repo, b'[submodule "x"]\n\tpath = ../../etc\n\turl = --upload-pack=touch evil\n')
    raw_commit(repo, [("100644", b".gitmodules", modules)])
    with pytest.raises(InputError) as caught:
        laid_out(git_recipe(repo), root, store)
    assert "damaged or incomplete" in caught.value.what
    assert "gitmodules" in caught.value.what
