"""orbit.kernels.sources.survey and export: what is needed, where it is, and all of it in one folder.

The machine without network is a fresh store, addresses that lead nowhere, and the exported folder.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from orbit.core.console import Silent
from orbit.core.files import sha256_file
from orbit.core.store import Store
from orbit.kernels.recipe import Recipe
from orbit.kernels.sources import obtain, resolve_source, unpack
from orbit.kernels.sources.export import SUMS, export_sources
from orbit.kernels.sources.survey import survey
from orbit.profile.lock import read_lock
from orbit.profile.model import Profile, load_profile
from tests.kernels.sources.repos import (
    clone,
    commit_all,
    git,
    git_recipe,
    lock_text,
    needs_git,
    pin_of,
    recipe_of,
    sdist_of,
    write,
)

pytestmark = needs_git
SDIST, WHEEL = "kernel-1.tar.gz", "kernel-1-py3-none-any.whl"


class Stack:
    """A checkout with a recipe of each kind, and ``mirrors``: the folder of a machine that has everything."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.mirrors = folder / "mirrors"
        write(self.root, {"kernels/src/ours/a.cu": b"ours"})
        write(self.mirrors, {SDIST: sdist_of({"setup.py": b"one\n"}), WHEEL: b"wheel"})
        lock = lock_text(sdist=(self.mirrors / SDIST).read_bytes(), wheel=b"wheel")
        (self.root / "uv.lock").write_text(lock)
        child, repo = self.mirrors / "child", self.mirrors / "kernel"
        clone(child, {"c.h": b"child"})
        clone(repo, {"setup.py": b"one\n"})
        git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(child), "third/child")
        commit_all(repo)
        self.pins = {"kernel": pin_of(repo), "child": pin_of(child, "https://forge.invalid/o/child")}
        pin = self.pins["child"]
        sub = {"path": "third/child", "url": pin.url, "commit": pin.commit, "tree": pin.tree}
        self.recipes: dict[str, Recipe] = {
            "from-git": git_recipe(repo, submodules=[sub]),
            "from-sdist": recipe_of("sdist"),
            "from-wheel": recipe_of("wheel", mode="prebuilt"),
            "ours": recipe_of("local", folder="ours", version="1"),
        }
        plain = msgspec.to_builtins(load_profile("probe"))
        kernels = {"core": [*self.recipes][1:], "extended": ["from-git"]}
        self.profile = msgspec.convert({**plain, "kernels": {**plain["kernels"], **kernels}}, Profile)

    def where(self, store: Store, *folders: Path, tier: str = "all") -> dict[str, str]:
        needs = survey(self.profile, self.root, store, tier=tier, folders=folders)
        return {f"{need.recipe} {need.submodule}".strip(): need.where for need in needs}


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stack:
    made = Stack(tmp_path)
    monkeypatch.setattr("orbit.kernels.sources.survey.load_recipe", made.recipes.__getitem__)
    return made


def test_where_everything_is(stack: Stack, store: Store) -> None:
    nothing = {"ours": "checkout"} | dict.fromkeys(
        ("from-sdist", "from-wheel", "from-git", "from-git third/child"), "fetch"
    )
    assert stack.where(store) == nothing
    assert set(stack.where(store, tier="core")) == {"from-sdist", "from-wheel", "ours"}
    everything = {name: "checkout" if name == "ours" else "sources" for name in nothing}
    assert stack.where(store, stack.mirrors) == everything
    source = resolve_source(stack.recipes["from-git"], read_lock(stack.root / "uv.lock"), stack.root)
    obtain(stack.recipes["from-git"], source, store, stack.root, Silent(), folders=(stack.mirrors,))
    assert stack.where(store) == nothing | {"from-git": "store", "from-git third/child": "store"}


def test_what_a_need_says(stack: Stack, store: Store) -> None:
    needs = {f"{n.recipe} {n.submodule}".strip(): n for n in survey(
        stack.profile, stack.root, store, tier="all", folders=(stack.mirrors,))}  # fmt: skip
    child = needs["from-git third/child"]
    pin = stack.pins["child"]
    assert (child.commit, child.tree, child.url, child.place) == (
        pin.commit,
        pin.tree,
        pin.url,
        str(stack.mirrors / "child"),
    )
    assert child.name == f"{pin.url} {pin.commit}"
    assert (needs["from-sdist"].name, needs["from-sdist"].sha256) == (SDIST, sha256_file(stack.mirrors / SDIST))
    assert needs["ours"].place == str(stack.root / "kernels" / "src" / "ours")


def test_what_looks_right_and_is_not(stack: Stack, store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "bad"
    write(folder, {SDIST: b"other", "child.bundle": b"# v2 git bundle\n"})
    clone(folder / "kernel", {"a fork": b"1"})
    needs = survey(stack.profile, stack.root, store, tier="all", folders=(folder,))
    assert {need.where for need in needs if need.recipe != "ours"} == {"fetch"}
    problems = {f"{need.recipe} {need.submodule}".strip(): need.problem for need in needs}
    assert "the lock says" in problems["from-sdist"]
    assert "ends inside its header" in problems["from-git third/child"]
    assert problems["from-git"] == problems["ours"] == ""


def test_one_folder_is_enough_for_a_machine_without_network(stack: Stack, tmp_path: Path) -> None:
    folder = tmp_path / "carried"
    here = Store(tmp_path / "here")
    done = export_sources(stack.profile, stack.root, here, folder, Silent(), tier="all", folders=(stack.mirrors,))
    bundles = {f"{name}-{pin.commit}.bundle" for name, pin in stack.pins.items()}
    assert {file.file for file in done.files} == bundles | {SDIST, WHEEL}
    assert done.missing == ()
    assert {path.name for path in folder.iterdir()} == bundles | {SDIST, WHEEL, SUMS}
    listed = {line.split("  ")[1]: line.split("  ")[0] for line in (folder / SUMS).read_text().splitlines()}
    assert listed == {file.file: sha256_file(folder / file.file) for file in done.files}

    for name in ("mirrors", "here"):
        (tmp_path / name).rename(tmp_path / f"{name}-elsewhere")
    there = Store(tmp_path / "there")
    assert set(stack.where(there, folder).values()) == {"checkout", "sources"}
    lock = read_lock(stack.root / "uv.lock")
    found = {}
    for name, recipe in stack.recipes.items():
        source = resolve_source(recipe, lock, stack.root)
        got = obtain(recipe, source, there, stack.root, Silent(), folders=(folder,))
        out = unpack(got, tmp_path / f"out-{name}")
        found[name] = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert found == {
        "from-git": {"setup.py", "third/child/c.h", ".gitmodules"},
        "from-sdist": {"setup.py"},
        "from-wheel": {WHEEL},
        "ours": {"a.cu"},
    }


def test_a_second_export_writes_what_is_new(stack: Stack, store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "carried"

    def export(*folders: Path, tier: str) -> tuple[dict[str, bool], int]:
        done = export_sources(stack.profile, stack.root, store, folder, Silent(), tier=tier, folders=folders)
        return {file.file.partition("-")[0] + file.file[-3:]: file.reused for file in done.files}, len(done.missing)

    first, missing = export(stack.mirrors, tier="core")
    assert (first, missing) == ({"kernel.gz": False, "kernelwhl": False}, 0)
    again, missing = export(stack.mirrors, tier="all")
    assert again == {"kernel.gz": True, "kernelwhl": True, "kerneldle": False, "childdle": False}
    bundle = next(folder.glob("child-*.bundle"))
    bundle.write_bytes(bundle.read_bytes()[:-9])
    (folder / WHEEL).write_bytes(b"spoiled")
    repaired, missing = export(tier="all")
    assert repaired == {"kernel.gz": True, "kernelwhl": False, "kerneldle": True, "childdle": False}
    assert missing == 0
    assert (folder / WHEEL).read_bytes() == b"wheel"


def test_what_cannot_be_had_is_said_and_the_rest_is_collected(stack: Stack, store: Store, tmp_path: Path) -> None:
    (stack.mirrors / "child").rename(tmp_path / "away")
    done = export_sources(
        stack.profile, stack.root, store, tmp_path / "carried", Silent(), tier="all", folders=(stack.mirrors,)
    )
    (missing,) = done.missing
    assert missing.what == f"from-git: child-{stack.pins['child'].commit}.bundle"
    assert "git init --bare child.git" in missing.reason
    assert len(done.files) == 3
    assert {path.suffix for path in (tmp_path / "carried").iterdir()} == {".gz", ".whl", ".bundle", ""}
