"""Commits: from ``ORBIT_SOURCES``, the store or the network into a bare repository in the store, verified.

An entry of the store holds ``repository.git`` with one commit and no history. Whatever it came from, git's own
receiving side computed the name of every object anew, and the commit's tree is the one of the recipe.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from orbit.core.console import Progress
from orbit.core.files import remove_tree
from orbit.core.store import Entry, Store
from orbit.core.tools import find
from orbit.errors import CommandFailed, InputError, MissingError, RefusedError
from orbit.kernels.sources.git import damaged, fetch_commit, has_commit, init_bare, unbundle
from orbit.kernels.sources.model import Pin, Source
from orbit.kernels.sources.places import VARIABLE, Place, bundle_name, find_repositories, repository_names
from orbit.kernels.sources.tree import Tree, commit_tree, read_tree

FORMAT = 1
KIND = "git"
REPOSITORY = "repository.git"


def commit_inputs(pin: Pin) -> dict[str, Any]:
    """The key of a commit in the store: not its address, for a commit is the same everywhere."""
    return {"format": FORMAT, "commit": pin.commit, "tree": pin.tree}


def obtain_commit(pin: Pin, store: Store, progress: Progress, folders: tuple[Path, ...]) -> Entry:
    """The commit in the store, from the first of ``folders`` that has it, else from its own address.

    Raises :class:`MissingError` without git or when nobody has it, naming what to fetch and where to put it;
    :class:`InputError` for a damaged mirror or bundle, and when the commit's tree is not the pinned one.
    """
    find("git")

    def work(folder: Path) -> dict[str, Any]:
        repository = folder / REPOSITORY
        init_bare(repository)
        seen = []
        for place in find_repositories(folders, pin):
            if _take(repository, place, pin, store):
                progress.step(f"taking commit {pin.commit[:12]} from {place.path}")
                break
            seen.append(f"{place.path} does not have it")
        else:
            _fetch(repository, pin, progress, seen)
        _check_tree(repository, pin)
        return {"commit": pin.commit, "tree": pin.tree}

    return store.obtain(KIND, commit_inputs(pin), work)


def place_has(place: Place, pin: Pin, store: Store) -> bool:
    """Whether a mirror or bundle holds the commit. A bundle is unpacked for it, for it can hold more than its heads.

    Raises :class:`InputError` for a damaged bundle.
    """
    scratch = store.scratch("look")
    try:
        init_bare(scratch / REPOSITORY)
        if place.bundle:
            return unbundle(scratch / REPOSITORY, place, pin.commit)
        return has_commit(scratch / REPOSITORY, place.path, pin.commit)
    finally:
        remove_tree(scratch)


def read_pinned(repository: Path, pin: Pin) -> Tree:
    """Everything in the pinned tree, read and verified from its hash down."""
    _check_tree(repository, pin)
    return read_tree(repository, pin.tree)


def check_submodules(source: Source, unused: tuple[str, ...], trees: dict[str, Tree], recipe: str) -> None:
    """Raise :class:`InputError` when submodules of the recipe and of the trees (by path in the source) differ."""
    wanted = {pin.path: pin for pin in source.pins if pin.path}
    found = {
        f"{path}/{inner}" if path else inner: commit
        for path, tree in trees.items()
        for inner, commit in tree.submodules.items()
    }
    for path, commit in sorted(found.items()):
        if path in wanted and wanted[path].commit != commit:
            raise InputError(
                f"recipe {recipe}: submodule {path} is pinned to {wanted[path].commit}, the source asks for {commit}",
                fix=f"pin {commit} with its tree, or change the source's commit",
            )
        if path not in wanted and path not in unused:
            raise InputError(
                f"recipe {recipe}: the source has a submodule {path} (commit {commit}) that the recipe does not name",
                fix="name it under source.submodules, or under source.unused_submodules when no build needs it",
            )
    for path in (*wanted, *unused):
        if path not in found:
            raise InputError(
                f"recipe {recipe}: the source has no submodule {path}",
                fix=f"submodules of this commit: {', '.join(sorted(found)) or 'none'}",
            )


def commit_fix(pin: Pin) -> str:
    """What to do when a commit cannot be fetched: commands for a machine with network."""
    name = repository_names(pin.url)[-1]
    file = bundle_name(pin)
    return (
        "check network, proxy variables and SSL_CERT_FILE; or on a machine with network:\n"
        f"    git init --bare {name}.git\n"
        f"    git -C {name}.git fetch --depth 1 {pin.url} {pin.commit}:refs/heads/pinned\n"
        f"    git -C {name}.git bundle create ../{file} refs/heads/pinned\n"
        f"  copy {file} here, into a folder that {VARIABLE} names, and run the same command again\n"
        f"  (a mirror that has the commit does as well: {repository_names(pin.url)[-2]}.git in that folder)"
    )


def _take(repository: Path, place: Place, pin: Pin, store: Store) -> bool:
    """Fetch the commit from a mirror or bundle; False when it is not in it."""
    scratch = store.scratch("bundle")
    try:
        origin = place.path
        if place.bundle:
            origin = scratch / REPOSITORY
            init_bare(origin)
            there = unbundle(origin, place, pin.commit)
        else:
            there = has_commit(repository, origin, pin.commit)
        if there:
            try:
                fetch_commit(repository, str(origin.absolute()), pin.commit, protocol="file")
            except CommandFailed as error:
                raise damaged(place, error) from None
        return there
    finally:
        remove_tree(scratch)


def _fetch(repository: Path, pin: Pin, progress: Progress, seen: list[str]) -> None:
    progress.step(f"fetching commit {pin.commit[:12]} of {pin.url}")
    try:
        fetch_commit(repository, pin.url, pin.commit, protocol="https")
    except CommandFailed as error:
        if error.code is RefusedError.code:
            raise
        said = [line for line in error.tail.splitlines() if line.strip()][-4:]
        raise MissingError(
            "\n".join(
                [f"commit {pin.commit} of {pin.url} cannot be fetched"] + [f"  | {line}" for line in [*said, *seen]]
            ),
            fix=commit_fix(pin),
        ) from None


def _check_tree(repository: Path, pin: Pin) -> None:
    found = commit_tree(repository, pin.commit)
    if found != pin.tree:
        raise InputError(
            f"{pin.url}: commit {pin.commit} has the tree {found}, the recipe says {pin.tree}",
            fix="the recipe contradicts itself: correct commit or tree (`git rev-parse COMMIT^{tree}`)",
        )
