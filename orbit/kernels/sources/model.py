"""The exact source of one build, as a value: resolved from recipe, lock and checkout; nothing is fetched."""

from __future__ import annotations

from pathlib import Path

from orbit.core.files import read_file, sha256_file, tree_hash
from orbit.core.records import Record, content_key
from orbit.errors import InputError
from orbit.kernels.recipe import Recipe, Submodule
from orbit.profile.lock import Artifact, Lock

PATCH_BYTES = 16 << 20
"""Largest patch that is read."""


class PatchFile(Record, frozen=True, kw_only=True):
    """One patch of a recipe with what is in it."""

    file: str
    sha256: str


class Pin(Record, frozen=True, kw_only=True):
    """One git repository of a source: the commit to fetch and the tree it must have."""

    path: str
    """Folder inside the source; empty for the source itself."""
    url: str
    commit: str
    tree: str


class Source(Record, frozen=True, kw_only=True):
    """The exact source of one build."""

    kind: str
    """``sdist``, ``wheel``, ``local`` or ``git``."""
    version: str
    sha256: str
    """Of the sdist or wheel, the tree hash of a local folder; for git over the trees, see :func:`git_identity`."""
    file: str = ""
    """File name of the sdist or wheel, or folder of a local source relative to the checkout."""
    url: str = ""
    commit: str = ""
    tree: str = ""
    subdirectory: str = ""
    submodules: tuple[Submodule, ...] = ()
    patches: tuple[PatchFile, ...] = ()
    """In the order in which they are applied."""

    @property
    def identity(self) -> str:
        """What a wheel's key holds of its source: ``sha256`` itself, or with patches a hash over both."""
        if not self.patches:
            return self.sha256
        return content_key({"source": self.sha256, "patches": [patch.sha256 for patch in self.patches]})

    @property
    def pins(self) -> tuple[Pin, ...]:
        """The repositories of a git source: itself, then its submodules, outer ones first."""
        if self.kind != "git":
            return ()
        own = Pin(path="", url=self.url, commit=self.commit, tree=self.tree)
        inner = [Pin(path=sub.path, url=sub.url, commit=sub.commit, tree=sub.tree) for sub in self.submodules]
        return (own, *sorted(inner, key=lambda pin: pin.path.split("/")))


def git_identity(tree: str, subdirectory: str, submodules: tuple[Submodule, ...]) -> str:
    """sha256 over what is compiled: trees and where they lie.

    Neither address nor commit enters: the same tree from a mirror, or from a rewritten history, is the same source.
    """
    return content_key({"tree": tree, "subdirectory": subdirectory, "submodules": {s.path: s.tree for s in submodules}})


def resolve_source(recipe: Recipe, lock: Lock, root: Path) -> Source:
    """What the recipe's source is right now. Raises :class:`InputError` when lock or checkout do not have it."""
    patches = tuple(
        PatchFile(file=patch.file, sha256=sha256_file(patch_path(recipe.name, patch.file, root)))
        for patch in recipe.patches
    )
    said = recipe.source
    match said.kind:
        case "local":
            return _local(recipe, root, patches)
        case "git":
            return Source(
                kind="git",
                version=said.version,
                sha256=git_identity(said.tree, said.subdirectory, said.submodules),
                url=said.url,
                commit=said.commit,
                tree=said.tree,
                subdirectory=said.subdirectory,
                submodules=said.submodules,
                patches=patches,
            )
        case "wheel" if patches:
            raise InputError(
                f"recipe {recipe.name}: patches of a wheel that is not built here",
                fix="drop the patches, or build from an sdist or from git",
            )
    package = lock.package(recipe.dist)
    artifact = package.sdist if said.kind == "sdist" else package.wheel
    file = _hashed(artifact, f"{lock.path}: {recipe.dist} {package.version}", said.kind)
    return Source(
        kind=said.kind,
        version=package.version,
        sha256=file.sha256,
        file=file.filename,
        url=file.url,
        patches=patches,
    )


def patch_path(recipe: str, file: str, root: Path) -> Path:
    """Where a recipe's patch lies in the checkout. Raises :class:`InputError` when it is not there."""
    path = root / "kernels" / "patches" / recipe / file
    if not path.is_file():
        raise InputError(f"{path}: no such patch (recipe {recipe})", fix="restore it, or drop it from the recipe")
    return path


def read_patch(recipe: str, patch: PatchFile, root: Path) -> bytes:
    """The patch's bytes. Raises :class:`InputError` when they are no longer those of the plan."""
    path = patch_path(recipe, patch.file, root)
    data = read_file(path, PATCH_BYTES)
    if sha256_file(path) != patch.sha256:
        raise InputError(f"{path}: changed since the plan was made", fix="run the same command again")
    return data


def _hashed(artifact: Artifact | None, where: str, kind: str) -> Artifact:
    if artifact is None or not artifact.sha256:
        what = "a usable wheel" if kind == "wheel" else "an sdist"
        raise InputError(
            f"{where} has no {'wheel for this platform' if kind == 'wheel' else 'sdist'} with a sha256",
            fix=f"lock a release that has {what}, or give the recipe another kind of source",
        )
    return artifact


def _local(recipe: Recipe, root: Path, patches: tuple[PatchFile, ...]) -> Source:
    folder = root / "kernels" / "src" / recipe.source.folder
    if not folder.is_dir():
        raise InputError(
            f"{folder}: no such folder (source of recipe {recipe.name})",
            fix="correct source.folder in the recipe, or restore the folder from the repository",
        )
    return Source(
        kind="local",
        version=recipe.source.version,
        sha256=tree_hash(folder),
        file=str(folder.relative_to(root)),
        patches=patches,
    )
